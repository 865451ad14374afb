// Package client is a client of the Kubernetes API server for one node. It owns the connection and
// watches the pods of that node and its Node object. For a controller [Dial] makes clients of the
// same kind.
//
// Duties and invariants:
//
//   - Nothing here blocks on the server. [Connect] makes no request. The pods and the Node are the
//     latest known ones, and report whether they were ever known.
//   - Known objects remain until the server reports a change. A late, broken or refused response
//     changes nothing: only a complete list replaces a list. No pod is [Gone] before the first
//     list.
//   - Only pods of the own node are watched and stored, whatever the response contains. A pod with
//     names that could lead out of its own cgroup and directories is dropped and logged once.
//   - Stored data is bounded, for each pod and for all together. No pod is lost by that.
//   - Readers receive finished values without a lock: a check of the node never waits for the
//     processing of an event.
//   - Requests for evictions wait for no other requests of this client.
package client
