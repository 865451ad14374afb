// Package podstatus reports evicted pods to the API server, and queues the reports that the server
// has not accepted yet.
//
// Duties and invariants:
//
//   - A report is in the queue, and handed to the store that persists it, before the pod is killed.
//     It consists of a status (phase Failed, reason Evicted, the message, the conditions
//     plimsoll.dev/Evicted and DisruptionTarget) and an event.
//   - The event is created exactly once, also across restarts of the agent. Its name follows from the
//     pod and the time of the decision, so that the server rejects a duplicate.
//   - The status is reported at most once, unless a kubelet unaware of the pod's end overwrites it
//     ([Reporter.Check]). It is never reported for a pod in which a container has started since the
//     kill: it would claim an end that did not last. A late report reads the pod first, and writes on
//     condition that nothing changed since.
//   - A pod of another UID is never written to, and only the reported conditions are changed.
//   - An abandoned report is logged with all its data.
//   - Enqueue, Commit, Cancel and Announce do not block. Evicted makes one request, bounded by its
//     context.
//   - A soft eviction is a request that can be refused. There are three ways, in one table; each
//     binds to the pod's UID.
package podstatus
