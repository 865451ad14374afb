// Package e2e has no code of its own but tests: the agent's binary on a real
// node, with a real API server, a real container runtime, and with or without a
// real kubelet.
//
// Every agent here runs under exactly the rules of deploy/rbac, which a real RBAC
// authorizer enforces. Every test starts its own cluster and leaves nothing
// behind.
package e2e
