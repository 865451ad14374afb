// Package client speaks to the Kubernetes API server for one node: it holds
// the connection, the pods of that node and its Node object. For a controller
// [Dial] makes clients of the same kind.
//
// Duties and invariants:
//
//   - Nothing here waits for the server. [Connect] makes no request; the pods and
//     the Node are what was known last, and say whether they were ever known.
//   - What was known stays until the server says otherwise. An answer that is
//     late, broken or refused changes nothing: only a complete list replaces a
//     list. Nobody is [Gone] before the first one.
//   - Only pods of the own node are watched, and only they are kept, whatever is
//     answered. A pod whose names could lead out of its own cgroup and directories
//     is left out, and that is said once.
//   - What is kept is bounded, of each pod and of all together, and no pod is lost by
//     that.
//   - Whoever asks gets finished values without a lock: a look at the node never
//     waits for an event that is being taken in.
//   - Requests for evictions wait for no other requests of this client.
package client
