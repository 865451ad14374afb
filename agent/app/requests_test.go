package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// answersWith answers each request with one status. Clients do not repeat a request after it.
type answersWith int

func (code answersWith) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code)})
}

var countedFailures = regexp.MustCompile(`(?m)^plimsoll_api_errors_total\{request="(\w+)"\} [^0]`)

// request sends one request of the agent.
type request func(context.Context, api.Interface) error

func readPods(ctx context.Context, c api.Interface) error {
	_, err := c.Pods("").List(ctx, metav1.ListOptions{})
	return err
}

func patchStatus(ctx context.Context, c api.Interface) error {
	_, err := c.Pods("shop").Patch(ctx, "a", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
	return err
}

func evictPod(ctx context.Context, c api.Interface) error {
	soft, err := podstatus.NewSoft("direct", c)
	if err != nil {
		return err
	}
	_, err = soft.Request(ctx, podstatus.Notice{UID: "a", Namespace: "shop", Name: "a"}, 30)
	return err
}

func readNode(ctx context.Context, c api.Interface) error {
	_, err := c.Nodes().Get(ctx, "n", metav1.GetOptions{})
	return err
}

func patchNode(subresources ...string) request {
	return func(ctx context.Context, c api.Interface) error {
		_, err := c.Nodes().Patch(ctx, "n", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, subresources...)
		return err
	}
}

func writeEvent(ctx context.Context, c api.Interface) error {
	_, err := c.Events("shop").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a.1"}}, metav1.CreateOptions{})
	return err
}

func writeLease(ctx context.Context, c api.Interface) error {
	_, err := c.Leases("plimsoll-system").Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-system", Name: "n"}}, metav1.UpdateOptions{})
	return err
}

func readRecord(ctx context.Context, c api.Interface) error {
	_, err := c.ConfigMaps("plimsoll-evictions").Get(ctx, "n", metav1.GetOptions{})
	return err
}

func createRecord(ctx context.Context, c api.Interface) error {
	_, err := c.ConfigMaps("plimsoll-evictions").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-evictions", Name: "n"}}, metav1.CreateOptions{})
	return err
}

func readArming(ctx context.Context, c api.Interface) error {
	_, err := c.ConfigMaps("plimsoll-system").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=plimsoll-arming"})
	return err
}

// Each failed request is counted as what it was. Statuses that are no failure are not.
func TestAPIErrors_CountedByKindOfRequest(t *testing.T) {
	const forbidden, missing, conflict, gone, invalid, busy, unavailable = 403, 404, 409, 410, 422, 429, 503
	for about, test := range map[string]struct {
		request request
		status  int
		counted []string
	}{
		"pods, no right":                 {readPods, forbidden, []string{"watch_pods"}},
		"pods, no version":               {readPods, gone, nil},
		"pods, a server without streams": {readPods, invalid, nil},
		"status of a pod, no right":      {patchStatus, forbidden, []string{"patch_pod_status"}},
		"status of a pod, refused":       {patchStatus, invalid, []string{"patch_pod_status"}},
		"status of a pod, ended":         {patchStatus, missing, nil},
		"status of a pod, written":       {patchStatus, conflict, nil},
		"eviction, no right":             {evictPod, forbidden, []string{"evict_pod"}},
		"eviction, a budget":             {evictPod, busy, nil},
		"eviction, ended":                {evictPod, missing, nil},
		"the Node, unavailable":          {readNode, unavailable, []string{"read_node"}},
		"the Node, not registered":       {readNode, missing, nil},
		"condition, no right":            {patchNode("status"), forbidden, []string{"patch_node_status"}},
		"taint, no right":                {patchNode(), forbidden, []string{"taint_node"}},
		"event, no right":                {writeEvent, forbidden, []string{"write_event"}},
		"event, no namespace":            {writeEvent, missing, []string{"write_event"}},
		"lease, no right":                {writeLease, forbidden, []string{"write_lease"}},
		"lease, written by another":      {writeLease, conflict, nil},
		"record, no right":               {readRecord, forbidden, []string{"write_record"}},
		"record, does not exist":         {readRecord, missing, nil},
		"record, no namespace":           {createRecord, missing, []string{"write_record"}},
		"setting of arming, no kind":     {readArming, forbidden, nil},
	} {
		t.Run(about, func(t *testing.T) {
			server := httptest.NewServer(answersWith(test.status))
			t.Cleanup(server.Close)
			a := &app{metrics: metrics.New(metrics.Settings{LinesDropped: func() int64 { return 0 }})}
			_ = test.request(t.Context(), connect(t, server.URL, a.countFailure).Urgent())
			var counted []string
			for _, found := range countedFailures.FindAllStringSubmatch(scraped(a.metrics), -1) {
				counted = append(counted, found[1])
			}
			if !slices.Equal(counted, test.counted) {
				t.Errorf("counted %v, want %v", counted, test.counted)
			}
		})
	}
}

// A canceled request is not counted. A broken connection is.
func TestAPIErrors_CountMissingResponses(t *testing.T) {
	arrived := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			panic(http.ErrAbortHandler)
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	failures := make(chan string, 2)
	c := connect(t, server.URL, func(r *http.Request) { failures <- r.URL.Path }).Urgent()

	canceled, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := c.Nodes().Get(canceled, "canceled", metav1.GetOptions{}); err == nil {
		t.Error("no error of a canceled request")
	}
	if _, err := c.Nodes().Patch(t.Context(), "broken", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err == nil {
		t.Error("no error of a broken connection")
	}
	close(failures)
	var counted []string
	for path := range failures {
		counted = append(counted, path)
	}
	if !slices.Equal(counted, []string{"/api/v1/nodes/broken"}) {
		t.Errorf("counted %v", counted)
	}
}

// The address of a server may have a path of its own.
func TestRequestKind_BehindPath(t *testing.T) {
	for path, want := range map[string]metrics.Request{
		"/k8s/clusters/c-1/api/v1/namespaces/api/pods/pods/status":                          metrics.PatchPodStatus,
		"/k8s/clusters/c-1/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n": metrics.WriteLease,
	} {
		if kind, counted := requestKind(http.MethodPatch, path); kind != want || !counted {
			t.Errorf("%s: %v, %v", path, kind, counted)
		}
	}
	for _, path := range []string{"", "/", "/api/v1/", "/api/v1/namespaces/x", "/api/v1/secrets", "/apis/apps/v1/namespaces/x/daemonsets/d", "/version"} {
		if kind, counted := requestKind(http.MethodGet, path); counted {
			t.Errorf("%q is counted as %v", path, kind)
		}
	}
}
