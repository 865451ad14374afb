// Package slimpods decodes pods without the fields that are read nowhere.
//
// The decoded form of a pod takes up to 20 times the memory of its protobuf: an empty
// volume has 4 bytes there and 256 bytes in Go. So the fields are dropped before a
// decoder sees them.
//
// Duties and invariants:
//
//   - What is dropped costs no memory, and one pass over its bytes.
//   - What the agent and the controller read of a pod is the same as in the whole
//     object, up to the bounds in fields.go. No object that the generated decoder
//     accepts is refused.
//   - Beyond a bound a pod keeps its identity, priority, annotations and conditions.
//     A cut never makes the pod easier to evict for a taint.
//   - Lists and watches decode by one type, [Pod]. An answer in JSON is decoded whole.
package slimpods
