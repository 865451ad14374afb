// Package convert turns nodes, pods, taints and tolerations of core/v1 into the
// facts by which the cluster's side decides. What follows a cluster and what
// rehearses one read objects by it, so that both read the same; so do the
// controller and the doctor who wrote what of a node.
//
// Duties and invariants:
//
//   - Pure functions: nothing is kept, logged or shared, and an object is not
//     changed. Texts are those of the object; who keeps facts of many objects
//     makes one copy of what they have in common.
//   - An object is taken as written: nothing is defaulted, and whether it is
//     well formed is for the caller to say, who knows whom to tell.
//   - What only one caller needs, or each reads in its own way (who controls a
//     pod, whether it is Ready), is not here.
package convert
