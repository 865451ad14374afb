// Package fakeapiserver is an API server with a simulated cluster: nodes, their pods and leases
// and a few DaemonSets, with heartbeats of all nodes at the rate of real kubelets. Controllers
// are benchmarked with it.
//
// Duties and invariants:
//
//   - It behaves like a real server over TLS and HTTP/2. It supports lists, also in pages,
//     watches from the current state, bookmarks, protobuf or JSON as the client prefers,
//     conflicts and preconditions. Unsupported requests get an error, never an invented response.
//   - Objects are as large as real ones, and generated on request. Only written objects are
//     stored, so that the server of 450 000 pods is small.
//   - Every watcher receives every change in order, however slow it is.
//   - Every call is counted, by verb and resource.
package fakeapiserver
