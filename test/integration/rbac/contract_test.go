// Package rbac_test compares the files in deploy/rbac with the exact rights of the agent and of
// the controller. It reads the files, and queries the authorizer of an API server.
package rbac_test

import (
	"slices"
	"strings"
)

const (
	namespace      = "plimsoll-system"
	evictions      = "plimsoll-evictions" // namespace of the records of evictions
	agentFile      = "agent.yaml"
	controllerFile = "controller.yaml"
	readersFile    = "readers.yaml" // of paths, bound to no account
)

// account is an owner of rights: one file has the required ones, and the names of optional
// files begin with its name.
type account string

const (
	theAgent      account = "plimsoll-agent"
	theController account = "plimsoll-controller"
)

// accountOf returns the account of a file's rights.
func accountOf(file string) account {
	if file == controllerFile {
		return theController
	}
	return theAgent
}

// right is a set of verbs on a resource; without a namespace, in all of them.
type right struct {
	file      string
	namespace string
	group     string
	resource  string // or RESOURCE/SUBRESOURCE, or RESOURCE[NAME]
	verbs     string
}

// contract lists the rights that the files grant. The code that makes requests is written for
// these rights; the files beside agent.yaml are optional.
var contract = []right{
	{agentFile, "", "", "pods", "get, list, watch"},
	{agentFile, "", "", "pods/status", "patch"},
	{agentFile, "", "", "nodes", "get, list, watch"},
	{agentFile, "", "", "nodes/status", "patch"},
	{agentFile, "", "", "events", "create, patch"},
	{agentFile, "", "authentication.k8s.io", "tokenreviews", "create"},
	{agentFile, "", "authorization.k8s.io", "subjectaccessreviews", "create"},
	{agentFile, namespace, "coordination.k8s.io", "leases", "get, create, update"},
	{agentFile, namespace, "", "configmaps[plimsoll-arming]", "get, list, watch"},
	{agentFile, namespace, "apps", "daemonsets[plimsoll-agent]", "get"},
	{agentFile, evictions, "", "configmaps", "get, create, update"},

	{"agent-direct-eviction.yaml", "", "", "pods/eviction", "create"},
	{"agent-pressure-taint.yaml", "", "", "nodes", "patch"},
	{"agent-node-lease.yaml", "kube-node-lease", "coordination.k8s.io", "leases", "get, create, update"},

	{controllerFile, "", "", "nodes", "get, list, watch, patch"},
	{controllerFile, "", "", "nodes/status", "patch"},
	{controllerFile, "", "", "pods", "get, list, watch, delete"},
	{controllerFile, "", "", "pods/status", "patch"},
	{controllerFile, "", "", "pods/eviction", "create"},
	{controllerFile, "", "", "events", "create"},
	{controllerFile, "", "authentication.k8s.io", "tokenreviews", "create"},
	{controllerFile, "", "authorization.k8s.io", "subjectaccessreviews", "create"},
	{controllerFile, "kube-node-lease", "coordination.k8s.io", "leases", "get, list, watch"},
	{controllerFile, namespace, "coordination.k8s.io", "leases", "get, list, watch, create, update"},
	{controllerFile, evictions, "", "configmaps", "list, delete"},
}

// ofAccount returns the contract's rights of one account.
func ofAccount(subject account) (rights []right) {
	for _, r := range contract {
		if accountOf(r.file) == subject {
			rights = append(rights, r)
		}
	}
	return rights
}

// options returns the files beside agent.yaml.
func options() (files []string) {
	for _, r := range contract {
		if r.file != agentFile && r.file != controllerFile {
			files = append(files, r.file)
		}
	}
	return slices.Compact(files)
}

// forbidden lists rights of use to a thief of a token. They must be missing, whatever options
// are applied.
var forbidden = map[account][]right{
	theAgent:      slices.Concat(forAgent, forNone),
	theController: slices.Concat(forController, forNone),
}

// forController lists forbidden rights that the agent may have, or that nothing requires.
var forController = []right{
	{"", "", "", "pods", "create, update, patch, deletecollection"},
	{"", "", "", "nodes", "create, update, delete, deletecollection"},
	{"", "", "coordination.k8s.io", "leases", "get, list, watch, create, update, patch, delete"},
	{"", namespace, "coordination.k8s.io", "leases", "patch, delete, deletecollection"},
	{"", "kube-node-lease", "coordination.k8s.io", "leases", "create, update, patch, delete, deletecollection"},
	// It can not falsify records, nor arm agents.
	{"", evictions, "", "configmaps", "create, update, patch, deletecollection"},
	{"", namespace, "", "configmaps", "list, create, update, patch, delete"},
}

// forAgent lists forbidden rights that the controller requires.
var forAgent = []right{
	{"", "", "", "pods", "create, update, patch, delete, deletecollection"},
	{"", "", "", "nodes", "create, update, delete"},
	{"", "", "coordination.k8s.io", "leases", "get, list, watch, create, update, patch, delete"},
	{"", namespace, "coordination.k8s.io", "leases", "list, watch, patch, delete, deletecollection"},
	{"", "kube-node-lease", "coordination.k8s.io", "leases", "list, watch, patch, delete, deletecollection"},
	// Agents can not arm agents.
	{"", namespace, "", "configmaps", "get, list, watch, create, update, patch, delete"},
	{"", namespace, "", "configmaps[plimsoll-arming]", "update, patch, delete"},
	{"", evictions, "", "configmaps", "list, watch, patch, delete, deletecollection"},
	{"", namespace, "apps", "daemonsets", "get, list, watch"},
	{"", namespace, "apps", "daemonsets[plimsoll-agent]", "update, patch, delete"},
}

var forNone = []right{
	// Secrets, and configuration of others.
	{"", "kube-system", "", "secrets", "get, list, watch, create"},
	{"", namespace, "", "secrets", "get, list"},
	{"", "", "", "configmaps", "get, list, update"},
	// Pods: nothing but their status and their end.
	{"", "", "", "pods/status", "get, update"},
	{"", "", "", "pods/exec", "get, create"},
	{"", "", "", "pods/attach", "get, create"},
	{"", "", "", "pods/portforward", "get, create"},
	{"", "", "", "pods/log", "get"},
	{"", "", "", "pods/ephemeralcontainers", "update, patch"},
	{"", "", "", "pods/binding", "create"},
	{"", "", "", "pods/resize", "update, patch"},
	// Objects that create or protect pods.
	{"", "", "apps", "deployments", "get, create, patch, delete"},
	{"", "", "apps", "daemonsets", "get, create, patch, delete"},
	{"", "", "batch", "jobs", "create, delete"},
	{"", "", "policy", "poddisruptionbudgets", "update, patch, delete"},
	{"", "", "scheduling.k8s.io", "priorityclasses", "create, update, delete"},
	// Nodes: no access to the kubelet.
	{"", "", "", "nodes/status", "get, update"},
	{"", "", "", "nodes/proxy", "get, create"},
	{"", "", "", "namespaces", "create, update, delete"},
	{"", "", "", "persistentvolumes", "get, delete"},
	// Leases of others: their holder leads.
	{"", "kube-system", "coordination.k8s.io", "leases", "get, list, create, update, patch, delete"},
	{"", "default", "coordination.k8s.io", "leases", "get, list, create, update, patch, delete"},
	// Hiding traces.
	{"", "", "", "events", "get, list, update, delete, deletecollection"},
	// More rights.
	{"", "", "rbac.authorization.k8s.io", "clusterroles", "create, update, patch, bind, escalate"},
	{"", "", "rbac.authorization.k8s.io", "clusterrolebindings", "create, update, patch"},
	{"", namespace, "rbac.authorization.k8s.io", "roles", "create, update, patch, bind, escalate"},
	{"", namespace, "rbac.authorization.k8s.io", "rolebindings", "create, update, patch"},
	{"", namespace, "", "serviceaccounts", "create, update, patch, impersonate"},
	{"", namespace, "", "serviceaccounts/token", "create"},
	{"", "", "", "users", "impersonate"},
	{"", "", "", "groups", "impersonate"},
	{"", "", "certificates.k8s.io", "certificatesigningrequests", "create, update, patch"},
	{"", "", "certificates.k8s.io", "certificatesigningrequests/approval", "update, patch"},
	{"", "", "certificates.k8s.io", "signers", "approve, sign"},
	{"", "", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "create, update, patch, delete"},
	{"", "", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "create, update, patch, delete"},
	{"", "", "*", "*", "*"},
}

// isReview reports whether a right is a query by creating an object without storing it.
func (r right) isReview() bool {
	return r.resource == "tokenreviews" || r.resource == "subjectaccessreviews"
}

func (r right) eachVerb() []string { return strings.Split(r.verbs, ", ") }

// each returns the right as one line for every verb, for comparison.
func (r right) each() (lines []string) {
	for _, verb := range r.eachVerb() {
		lines = append(lines, strings.Join([]string{r.namespace, r.group, r.resource, verb}, " | "))
	}
	return lines
}

// lines returns the sorted rights of a file, or of all files.
func lines(rights []right, file string) []string {
	var all []string
	for _, r := range rights {
		if file == "" || r.file == file {
			all = append(all, r.each()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
