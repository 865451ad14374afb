// Package store keeps the record of a node's evictions in the cluster: one ConfigMap with the name of the
// node. An agent writes it, plimsoll why reads it, and the controller deletes it once the node is gone.
//
// Duties and invariants:
//
//   - No caller waits: records are written by one goroutine, soon after the first and then at most every ten
//     seconds.
//   - A record is deleted only of a node that does not exist, as it was listed, and by no clock alone.
//   - A record that the API server has not accepted yet is handed to the state file, and written later.
//   - Other keys of the ConfigMap, and lines of another version, are preserved. Where that is impossible,
//     nothing is written, and the log has the reason.
package store
