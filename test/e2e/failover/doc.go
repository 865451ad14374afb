// Package failover has no code of its own but tests: processes of plimsoll
// controller on a real etcd and kube-apiserver, with hollow nodes that fall
// silent, and with SIGKILL for whoever leads.
//
// Every controller here runs under exactly the rules of deploy/rbac, which a real
// RBAC authorizer enforces, and what it did is taken from the API server's own
// audit. KILLS sets how many leaders are killed (8), SEED repeats a trial, and
// PAUSE is how long the API server stands still (12s).
package failover
