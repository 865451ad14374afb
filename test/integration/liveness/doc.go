// Package liveness has no code of its own but tests: the agent's loop and the ladder of
// an eviction, in virtual time, on random nodes with hostile and ordinary pods.
//
// What always holds: whenever a hard threshold has been met for 40 s and a pod that may
// be evicted holds what is missing, an eviction has been tried, and a look that did
// nothing has its reason in the decision log, once per change. SEQUENCES sets how many
// nodes there are (1,000), SEED repeats them, and ONLY runs one of them.
package liveness
