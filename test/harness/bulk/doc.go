// Package bulk is an API server with very large pods, all bound to one node.
//
// Duties and invariants:
//
//   - It answers lists and watches of pods in protobuf or JSON, as the client prefers, and
//     ignores limits, as an API server does for responses from its cache.
//   - It stores one pod of each kind and sends it under many names, so that a small process sends
//     hundreds of megabytes.
//   - All other requests of an agent get an empty list or an error.
package bulk
