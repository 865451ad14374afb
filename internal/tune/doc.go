// Package tune compares thresholds of one signal over many recordings: how many pods each would have evicted, and for
// how long, or on how many nodes, memory would have been exhausted.
//
// Duties and invariants:
//
//   - It is pure: recordings and options are arguments.
//   - It replays with package simulate, and decides nothing by itself. A replay gives two bounds, which remain two.
//   - A threshold is on the front unless another one is at least as good by every bound, and better by one. So none is
//     left out because of what a recording cannot show.
//   - A replay changes memory alone. Thresholds of disks and PIDs are therefore refused.
package tune
