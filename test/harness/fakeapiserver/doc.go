// Package fakeapiserver is an API server that holds a made-up cluster: nodes, their pods,
// their leases and a few DaemonSets, and heartbeats of all of them at the pace of
// real kubelets. Controllers are measured against it.
//
// Duties and invariants:
//
//   - It speaks as a real server does over TLS and HTTP/2: lists, in pages too,
//     watches that begin with what there is, bookmarks, protobuf or JSON as the
//     client prefers, conflicts, preconditions. What it does not know it answers
//     with an error, never with something made up.
//   - Objects are as large as real ones, and made when they are asked for: only
//     what was written is kept, so that the server of 450 000 pods is small.
//   - Every watcher gets every change in order, however slow it is.
//   - Every call is counted, by verb and resource.
package fakeapiserver
