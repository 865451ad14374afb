// Package vitals has the form in which an agent publishes measured values in annotations of its
// lease: its signals beside their thresholds, and its last eviction.
//
// Duties and invariants:
//
//   - It is pure. The agent formats, and clients on any system parse.
//   - A text is bounded by the number of signals and by the lengths of names in Kubernetes.
//   - A part that this version cannot parse is skipped: agents of several versions run beside each
//     other, and any writer of a lease can write any text.
package vitals
