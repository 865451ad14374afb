// Package evictionlog has the form and the bounds of the record of a node's last evictions, which outlives
// their events, pods and agent. Where the record is stored is decided elsewhere.
//
// Duties and invariants:
//
//   - One line of JSON for each eviction, the oldest first. Records, bytes and texts are bounded, also
//     when a line is read that another program wrote.
//   - The oldest record of the namespace with the most bytes is dropped first: the evictions of one
//     tenant do not push out those of others.
//   - Records are dated by the node's clock, which may be wrong by months. It drops no record for its age, and records
//     of the future displace no others.
//   - A line that this version cannot read, and an unknown key of an unchanged line, stay as they are.
package evictionlog
