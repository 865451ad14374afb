// Package strictyaml reads what a user wrote (YAML or JSON) field by field and
// collects every fault on the way instead of stopping at the first one.
//
// Duties and invariants:
//
//   - A fault names the field's path, the value found there and what is wrong
//     with it; faults come in the order of the document.
//   - Nothing is guessed: a key that nobody asked for, a key written twice, a
//     second document and a value of the wrong type are faults.
//   - A reader that met a fault goes on with the zero value, so that one call
//     finds all of them; who reads must look at the faults before using what
//     was read.
package strictyaml
