// Package confirm judges whether a silent node is dead, or whether it is the
// watch or the API server that is sick.
//
// Duties and invariants:
//
//   - With live reads nobody is dead without a lease that was read, found not to
//     be renewed, and whose reading began after the suspicion and after whatever
//     made earlier readings worthless. A read that failed is no evidence of
//     anything and is repeated for ever; one name is read once at a time.
//   - Reads begin at ReadsPerSecond at most, whatever happens. Those asked least
//     often come first, then the order is that of a hash, so that the first
//     answers are a sample of all zones.
//   - While the API server cannot be reached nobody is dead. Once it can, a time
//     is told before which nobody falls silent, and reads from before it count
//     no more. Without live reads that time runs from the last failure at once,
//     since nothing will ever prove that it is over.
//   - A failed read is a sign of an outage unless our own watch delivered
//     something while it ran: one lease that cannot be read keeps nobody else
//     alive.
//   - When too many nodes fall silent together a breaker opens, and nobody is dead
//     until enough of them in succession were found dead, or until its longest
//     time is over. In the latter case everybody is read anew. It never stays
//     open longer than that.
//   - Every death is told once, until the name is cleared. Nothing walks over all
//     suspects, except that an outage or a breaker which ends has each of those
//     read again, at the rate of reads.
package confirm
