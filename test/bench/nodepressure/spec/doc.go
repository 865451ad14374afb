// Package spec parses the files of the benchmark: incidents and contestants, in YAML.
//
// Duties and invariants:
//
//   - It is pure: text in, values out. It reads no file, clock or environment.
//   - Nothing is guessed. An unknown key, a duplicate key, a second document, an alias and a value of
//     the wrong type or out of range are faults.
//   - A fault has the line, the path of the field and the problem. One call reports all faults.
//   - Everything is bounded: the size of a file, the depth of steps, the number of pods and processes.
package spec
