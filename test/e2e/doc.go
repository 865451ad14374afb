// Package e2e contains only tests: the agent's binary on a real node, with a real API server, a
// real container runtime, and with or without a real kubelet.
//
// Every agent runs under exactly the rules of deploy/rbac, enforced by a real RBAC authorizer.
// Every test starts its own cluster and removes it.
package e2e
