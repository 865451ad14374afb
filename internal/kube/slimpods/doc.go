// Package slimpods decodes pods without the fields that Plimsoll does not read.
//
// The decoded form of a pod takes up to 20 times the memory of its protobuf: an empty volume has 4
// bytes there and 256 bytes in Go. Therefore the fields are dropped before decoding.
//
// Duties and invariants:
//
//   - Dropped fields cost no memory, and one pass over their bytes.
//   - The fields that agent and controller read are the same as in the whole object, up to the
//     bounds in fields.go. No object that the generated decoder accepts is refused.
//   - Beyond a bound a pod retains its identity, priority, annotations and conditions. A cut never
//     makes the pod easier to evict for a taint.
//   - Lists and watches decode by one type, [Pod]. A response in JSON is decoded whole.
package slimpods
