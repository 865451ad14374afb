// Package bulk is an API server with very large pods, all bound to one node.
//
// Duties and invariants:
//
//   - It answers lists and watches of pods in protobuf or JSON, as the client
//     prefers, and ignores limits, as an API server does that answers from its cache.
//   - It holds one pod of each kind in memory and sends it under many names, so that
//     hundreds of megabytes are sent by a small process.
//   - Whatever else an agent asks for is answered with an empty list or an error.
package bulk
