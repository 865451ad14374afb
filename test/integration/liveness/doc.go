// Package liveness contains only tests: the agent's loop and the sequence of an eviction, in
// virtual time, on random nodes with hostile and ordinary pods.
//
// Invariants: an eviction has been tried whenever a hard threshold has been met for 40 s and an
// evictable pod uses the missing amount. A check without action has its reason in the decision
// log, once per change. SEQUENCES sets the number of nodes (1,000), SEED repeats them, and ONLY
// runs one of them.
package liveness
