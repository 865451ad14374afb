// Package convert converts nodes, pods, taints and tolerations of core/v1 into the facts that the
// controller decides by. The controller, the simulation and the doctor all read objects through
// it, so that they interpret them alike.
//
// Duties and invariants:
//
//   - Pure functions: nothing is stored, logged or shared, and objects are not changed.
//     Strings are those of the object. A caller with the facts of many objects interns their
//     common strings.
//   - An object is taken as written: nothing is defaulted, and validation is up to the
//     caller, which can report faults.
//   - Facts that only one caller needs, or that callers interpret differently (the controller
//     of a pod, or whether it is Ready), are not in this package.
package convert
