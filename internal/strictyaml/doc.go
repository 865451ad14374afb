// Package strictyaml parses documents of users (YAML or JSON) field by field. It collects all
// faults, up to [MaxFaults], instead of stopping at the first one.
//
// Duties and invariants:
//
//   - A fault has the field's path, its value and the problem. Faults are in the order of the
//     document.
//   - Nothing is guessed: an unknown key, a duplicate key, a second document and a value of the
//     wrong type are faults.
//   - After a fault, parsing continues with the zero value, so that one call finds all faults. The
//     caller must check the faults before it uses the values.
package strictyaml
