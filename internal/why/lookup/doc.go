// Package lookup reads the records of evictions from the cluster, and writes their explanations. It does the work
// of plimsoll why.
//
// It makes read requests only: the pod, one ConfigMap of its node or of a named one, or pages of those of all nodes.
// For a pod without a record also its Node and the agent's lease. It sends none to an agent.
// The records of one page are held at a time, and of them those that are asked for.
package lookup
