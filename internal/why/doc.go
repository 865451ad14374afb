// Package why explains evictions from their records. It is pure, and needs neither the node nor its agent: a
// client on any system uses it.
//
// Duties and invariants:
//
//   - Every number comes from the record. A change of a number that is recommended is tested by the ranking's own
//     order: with it, another pod would have been evicted first.
//   - An unknown fact is named as unknown. That holds most for a pod that was not evicted: see [Standing].
package why
