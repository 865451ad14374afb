// Package podstatus tells the API server what became of an evicted pod, and
// keeps the ledger of what it could not be told yet.
//
// Duties and invariants:
//
//   - A debt is in the ledger, and handed to whoever persists it, before the pod
//     is killed. It is a status (phase Failed, reason Evicted, the message, the
//     conditions plimsoll.dev/Evicted and DisruptionTarget) and an event.
//   - The event is created exactly once, also by a successor of this program: its
//     name follows from the pod and the time of the decision, so that the server
//     knows a second one.
//   - The status is told at most once, unless a kubelet that did not know of the
//     pod's end writes over it ([Teller.Look]); and never of a pod in which a
//     container has started since the kill: it would claim an end that did not
//     last. Who is late reads before it writes, and writes on condition that
//     nothing changed in between.
//   - Nothing is written to a pod of another UID, and no condition is touched but
//     those that are told.
//   - What is given up is said in the log, with everything that was known of it.
//   - Owe, Killed, Spared and Announce wait for nobody. Evicted makes one request
//     and waits for its context at most.
//   - A soft eviction is a request that others may refuse. There are three ways,
//     one table; each binds to the pod's UID.
package podstatus
