// Package zones determines the disruption of each zone, the rate at which its lost nodes may be
// tainted or drained, and the order of these nodes. It is pure: counts and times are arguments;
// states, rates and names are return values.
//
//	                    state              rate
//	0 ready, > 0 not    FullDisruption     FullRate; 0 in all zones if all are so
//	> 2 not, and many   PartialDisruption  SecondaryRate in a large zone, else 0
//	else                Normal             Rate
//
// Duties of the caller: [Zones.Set] whenever a node changes. Once per instant, after all of its
// observations, [Zones.Update] and then [Zones.Take]. A token for a node without a write must be
// returned ([Zones.GiveBack]).
//
// Invariants:
//
//  1. States and rates follow from the present counts alone, without history. A node that
//     does not count may wait like any other.
//  2. In any time span, a zone spends at most rate × time + 1 tokens that were not returned.
//     At most one token is ever saved.
//  3. The node with the longest wait goes first; among equals the first by name. A node that
//     left the queue costs nothing.
//  4. A token of a zone is not lost by a change between two rates; a stop loses it. Every rate
//     above 0 resumes after a stop.
//  5. A zone that loses its last node and returns gains no token.
//  6. No call iterates over nodes. A call without a change allocates nothing.
package zones
