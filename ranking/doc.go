// Package ranking orders pods by how much their end would help and how little
// it would hurt, and says of each why it stands where it stands. It is pure: a
// new slice is returned, the caller's is not touched, and equal input gives
// equal output.
//
// The rules are the kubelet's, as ordered lists of keys (see the table of
// [Order]); pods that all keys leave equal stand in order of UID, so that the
// order is total. A pod that asked to go last stands after all that did not, and
// eviction priorities decide between pods of one priority; where nobody says
// anything of the kind the order is the kubelet's. Protected pods are ranked like any other: who evicts passes
// them over.
package ranking
