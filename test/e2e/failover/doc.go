// Package failover contains only tests: processes of plimsoll controller on a real etcd and
// kube-apiserver, with hollow nodes that fall silent, and with SIGKILL for leaders.
//
// Every controller runs under exactly the rules of deploy/rbac, enforced by a real RBAC
// authorizer. Its actions are read from the API server's own audit. KILLS sets the number of
// killed leaders (8), SEED repeats a run, and PAUSE is the duration for which the API server
// stands still (12s).
package failover
