// Package ranking orders pods by the effect and the cost of their eviction, with the reason for
// each place. It is pure: it returns a new slice, does not modify its input, and equal input
// gives equal output.
//
// The rules are the kubelet's, as ordered lists of keys (see the table of [Order]). Pods with
// equal keys are ordered by UID, so the order is total. A pod that asked to go last ranks after
// all others, and eviction priorities decide between pods of equal priority. Without these two
// settings the order is the kubelet's. Protected pods are ranked like any other; the caller
// passes them over, and pods with an end that would not help ([Relief]).
package ranking
