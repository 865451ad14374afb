// Package zones says how disrupted each zone is, how fast its lost nodes may be
// tainted or emptied, and whose turn it is. It is pure: counts and times come in,
// states, rates and names come out.
//
//	                    state              rate
//	0 ready, > 0 not    FullDisruption     FullRate; 0 for everybody if all zones are so
//	> 2 not, and many   PartialDisruption  SecondaryRate in a large zone, else 0
//	else                Normal             Rate
//
// Duties of the caller: [Zones.Set] whenever a node changes; once per instant,
// after all of its observations, [Zones.Update] and then [Zones.Take]. A token
// whose node was not written to goes back ([Zones.GiveBack]).
//
// Invariants:
//
//  1. States and rates follow the present counts alone; what they were before
//     changes nothing. A node that counts nowhere may wait like any other.
//  2. In no stretch of time does a zone spend more than rate × time + 1 tokens
//     that were not given back. No more than one is ever saved up.
//  3. The node that has waited longest goes first, the first by name among equals.
//     A node that left costs nothing.
//  4. A token that a zone had is not lost by a change between two rates; a stop
//     loses it. Every rate above 0 resumes after a stop.
//  5. A zone that loses its last node and comes back does not gain a token.
//  6. No call walks over nodes. One that changes nothing allocates nothing.
package zones
