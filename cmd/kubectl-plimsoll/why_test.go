package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// records serves the records of the node n1, which has evicted the pod shop/web, and names the requested paths. The
// namespace of the context is shop.
func records(t *testing.T) (requests *[]string) {
	t.Helper()
	const line = `{"time":"2026-03-01T01:00:00Z","decision":"evict","signal":"memory.available","threshold":"memory.available<100Mi","conditions":[],"pod":"shop/web","uid":"u","end":"recovered"}` + "\n"
	const path = "/api/v1/namespaces/plimsoll-evictions/configmaps"
	node := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Data: map[string]string{"evictions": line}}
	requests = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case path:
			answer = corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Items: []corev1.ConfigMap{node}}
		case path + "/n1":
			answer = node
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, namespace: shop}}]\nclusters: [{name: a, cluster: {server: %q}}]\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return requests
}

func TestWhy_FindsPodsAsKubectlDoes(t *testing.T) {
	requests := records(t)
	for _, tc := range []struct {
		line   string
		status int
		want   string // of the output, or of the errors
		pod    string // that is read
	}{
		{"why pod web", 0, "Pod shop/web was evicted from node n1.", "/api/v1/namespaces/shop/pods/web"},
		{"why pod shop/web -n other", 0, "Pod shop/web was evicted from node n1.", "/api/v1/namespaces/shop/pods/web"},
		{"why pod web -n other", 1, "no eviction of pod other/web is recorded in the namespace plimsoll-evictions of the context a (http://127", "/api/v1/namespaces/other/pods/web"},
		{"why pod web -o jsonpath={.items[*].eviction.pod}", 0, "shop/web", ""},
		{"why pod web -o yaml", 0, "kind: EvictionExplanationList\n", ""},
		{"why node n1", 0, "2026-03-01T01:00:00Z  n1    shop/web  evict     memory.available<100Mi  recovered", ""},
		{"why --last 5", 0, "shop/web", ""},
		{"why node/n1", 0, "2026-03-01T01:00:00Z  n1    shop/web", ""},
		{"why pod/web", 0, "Pod shop/web was evicted from node n1.", "/api/v1/namespaces/shop/pods/web"},
		{"why node/", 2, `"node ": must be pod NAMESPACE/NAME or node NODE`, ""},
		{"why shop/web", 2, `"shop/web": must be pod NAMESPACE/NAME or node NODE`, ""},
		{"why node n2", 1, "there is no ConfigMap n2", ""},
		{"why pod web -o wide", 2, `--output: "wide": must be one of json, yaml`, ""},
		{"why pod a/b/c", 2, `kubectl plimsoll why pod: "a/b/c": must be NAMESPACE/NAME`, ""},
		{"why", 0, "2026-03-01T01:00:00Z  n1    shop/web", ""},
		{"why pod web --context=none", 1, `context was not found for specified context: none`, ""},
	} {
		*requests = nil
		status, out, errs := execute(strings.Fields(tc.line)...)
		if status != tc.status || !strings.Contains(out+errs, tc.want) || (errs == "") != (status == 0) {
			t.Errorf("kubectl plimsoll %s: status %d, want %d\n%s%s", tc.line, status, tc.status, out, errs)
		}
		if tc.pod != "" && !slices.Contains(*requests, tc.pod) || tc.status == 2 && len(*requests) > 0 {
			t.Errorf("kubectl plimsoll %s: requests %q", tc.line, *requests)
		}
	}
}
