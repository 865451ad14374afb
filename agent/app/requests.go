package app

import (
	"net/http"
	"strings"

	"plimsoll.dev/plimsoll/internal/metrics"
)

// countFailure counts a failed attempt of a request to the API server.
func (a *app) countFailure(r *http.Request) {
	if kind, counted := requestKind(r.Method, r.URL.Path); counted {
		a.metrics.APIFailed(kind)
	}
}

// requestKind returns the kind of a request by its method and path, which may begin with the path of the server. It
// returns false for requests without a kind, such as a review of a token.
func requestKind(method, path string) (kind metrics.Request, counted bool) {
	parts := strings.Split(withoutGroup(path), "/")
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	resource, named := parts[0], len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	reads := method == http.MethodGet
	switch resource {
	case "pods":
		return metrics.WatchPods, reads
	case "pods/status":
		return metrics.PatchPodStatus, true
	case "pods/eviction":
		return metrics.EvictPod, true
	case "nodes":
		if reads {
			return metrics.ReadNode, true
		}
		return metrics.TaintNode, true
	case "nodes/status":
		return metrics.PatchNodeStatus, true
	case "events":
		return metrics.WriteEvent, true
	case "leases":
		return metrics.WriteLease, true
	case "configmaps": // lists and watches are of the arming setting
		return metrics.WriteRecord, named || !reads
	}
	return 0, false
}

// withoutGroup returns what follows the API group in a path. It is empty for groups without a kind of request.
func withoutGroup(path string) string {
	for _, group := range []string{"/api/v1/", "/apis/coordination.k8s.io/v1/"} {
		if _, after, found := strings.Cut(path, group); found {
			return after
		}
	}
	return ""
}
