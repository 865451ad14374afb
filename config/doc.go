// Package config is the typed, validated configuration of the program: the
// kubelet's flags and field names where they mean the same, and Plimsoll's own.
//
// Duties and invariants:
//
//   - There is one table of options; flags, the configuration file and the
//     reference in docs/configuration.md are made from it.
//   - A flag wins over the file, the file over the default. A map given on the
//     command line replaces the file's whole map.
//   - All faults are reported at once, each with the flag or field, the value
//     and a remedy. A configuration with faults is not used in part.
package config
