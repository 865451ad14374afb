// Package confirm checks whether a node with missing heartbeats is lost, or whether our
// watch or the API server is at fault.
//
// Duties and invariants:
//
//   - With live reads no loss is confirmed without a read of the lease that shows no
//     renewal, and that began after the suspicion and after all that makes earlier reads
//     useless. A failed read is no evidence and is repeated for ever; at most one read of
//     a name is under way.
//   - Reads never exceed ReadsPerSecond. The suspects with the fewest reads come first,
//     then the order is that of a hash, so that the first answers are a sample of all
//     zones.
//   - While the API server cannot be reached no loss is confirmed. Afterwards the checker
//     returns a time before which no grace period ends, and earlier reads no longer
//     count. Without live reads that time runs from the latest failure, since nothing
//     would ever show the end.
//   - A failed read is a sign of an outage unless our own watch delivered something
//     during it: one lease that cannot be read blocks no other confirmation.
//   - When too many nodes become silent together a breaker opens. No loss is confirmed
//     until enough reads in a row show no renewal, or until MassFailureMaxDuration is over. In the
//     latter case all leases are read again.
//   - Each loss is returned once, until the name is cleared. Nothing visits all suspects,
//     except that the end of an outage or of a mass failure has each of them read again, at the
//     rate of reads.
package confirm
