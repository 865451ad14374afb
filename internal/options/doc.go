// Package options reads typed options from flags and configuration files. It knows
// no option of its own, except the endpoints that agent and controller share: each
// program has a [Table] with one [Option] per row.
//
// Duties and invariants:
//
//   - Flags, configuration file and reference are made from the same table.
//   - A flag overrides the file, the file overrides the default. A map or a list
//     given as a flag replaces the whole one of the file.
//   - All faults are reported at once. Each names the flag or the field, its value
//     and a valid form. A configuration with faults must not be used in part.
package options
