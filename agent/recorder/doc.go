// Package recorder selects the checks of an agent that a recording has, and passes them to a queue.
//
// Duties and invariants:
//
//   - It runs on the loop's thread. It never waits, and an early check that considers no pod costs
//     no allocation.
//   - Periodic checks are recorded, and all that changed the state of the decisions. Checks that
//     are left out changed nothing, so that a replay is exact without them.
//   - Other checks are sampled by the distance to a threshold: none far from it, one a second near
//     it, all of them for a while where it is crossed.
//   - Early checks that measure the pods and find the same again are recorded without them, but for one
//     a second or in ten: as long as no pod helps, there are ten a second.
//   - A value that finds no room is dropped and counted. A recording names the number.
package recorder
