package collect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/output"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lease returns the lease of a healthy agent, with further annotations.
func lease(node string, more map[string]string) *coordinationv1.Lease {
	renewed, seconds := metav1.NewMicroTime(noon), int32(40)
	annotations := map[string]string{
		heartbeat.AnnotationVersion: "0.3.0", heartbeat.AnnotationArmed: "true", heartbeat.AnnotationArmedReason: "the ConfigMap is set to armed",
		heartbeat.AnnotationSignals: "memory.available=524288000/104857600,pid.available=31999/300",
	}
	maps.Copy(annotations, more)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: heartbeat.Namespace, Name: node, Annotations: annotations},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

// serve returns a cluster with an agent on each node, and a request for all of them.
func serve(t testing.TB, size fakeapiserver.Size) (*fakeapiserver.Cluster, *collect.Request) {
	c := fakeapiserver.New(size)
	for i := range size.Nodes {
		c.AddLease(lease(fakeapiserver.NodeName(i), nil))
	}
	return c, &collect.Request{Client: dial(t, c), Namespace: heartbeat.Namespace}
}

func dial(t testing.TB, h http.Handler) api.Interface {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf",
		AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}}
	client, err := api.New(config, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNodes_ListsEachKindOnce(t *testing.T) {
	c, r := serve(t, fakeapiserver.Size{Nodes: 5000})
	nodes, err := r.Nodes(t.Context())
	if err != nil || len(nodes) != 5000 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i := range nodes {
		if n := &nodes[i]; n.Agent == nil || !n.Agent.Armed || len(n.Agent.Readings) != 2 || n.Created.IsZero() || len(n.Conditions) != 0 {
			t.Fatalf("%+v", n)
		}
	}
	// Five pages of each, and no other request.
	if got, want := fmt.Sprint(c.Calls()), "map[LIST leases:5 LIST nodes:5]"; got != want {
		t.Errorf("calls: %s, want %s", got, want)
	}
}

func TestNodes_Selected(t *testing.T) {
	c, r := serve(t, fakeapiserver.Size{Nodes: 9})
	c.AddLease(lease("renamed", nil))                                                                                             // no Node has that name
	c.AddLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: heartbeat.Namespace, Name: "plimsoll-controller"}}) // no agent
	for _, tc := range []struct {
		about    string
		names    []string
		selector string
		want     int
		fault    string
	}{
		{"all, and the lease without a Node", nil, "", 10, ""},
		{"one", []string{fakeapiserver.NodeName(4)}, "", 1, ""},
		{"two", []string{fakeapiserver.NodeName(4), fakeapiserver.NodeName(5)}, "", 2, ""},
		{"the lease without a Node", []string{"renamed"}, "", 1, ""},
		{"a zone", nil, "topology.kubernetes.io/zone=eu-1a", 3, ""},
		{"none", nil, "topology.kubernetes.io/zone=nowhere", 0, ""},
		{"one that does not exist", []string{fakeapiserver.NodeName(4), "gone"}, "", 1, `find the node "gone": neither a Node nor the lease of an agent in the namespace plimsoll-system`},
	} {
		r := &collect.Request{Client: r.Client, Namespace: r.Namespace, Names: tc.names, Selector: tc.selector}
		before := c.Calls()
		nodes, err := r.Nodes(t.Context())
		if len(nodes) != tc.want || err == nil != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %d nodes, %v", tc.about, len(nodes), err)
		}
		if after := c.Calls(); after["LIST nodes"]-before["LIST nodes"] != 1 || after["LIST leases"]-before["LIST leases"] != 1 || len(after) != 2 {
			t.Errorf("%s: calls %v, then %v", tc.about, before, after)
		}
	}
}

// Settings of arming are read from the ConfigMap and the Nodes; what others wrote there is bounded and printable.
func TestArming_ReadsSettings(t *testing.T) {
	_, r := serve(t, fakeapiserver.Size{Nodes: 2})
	if got, err := r.Arming(t.Context()); err != nil || got != (arming.Source{}) {
		t.Errorf("without a ConfigMap: %+v, %v", got, err)
	}
	hostile := "\x1b[2J" + strings.Repeat("x", 10_000)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: arming.ConfigMap}, Data: map[string]string{arming.KeyAll: "armed", arming.KeyAccept: "a,b"}}
	if _, err := r.Client.ConfigMaps(heartbeat.Namespace).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Arming(t.Context()); err != nil || got != (arming.Source{Setting: "armed", Accepted: "a,b"}) {
		t.Errorf("%+v, %v", got, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{arming.Annotation: hostile, arming.AnnotationAccept: hostile}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client.Nodes().Patch(t.Context(), fakeapiserver.NodeName(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	nodes, err := r.Nodes(t.Context())
	if err != nil || nodes[1].Arming != (arming.Source{}) {
		t.Fatal(nodes, err)
	}
	for text, most := range map[string]int{nodes[0].Arming.Setting: 512, nodes[0].Arming.Accepted: 4096} {
		if len(text) > most || len(text) < most/2 || strings.Contains(text, "\x1b") {
			t.Errorf("%d bytes: %.40q", len(text), text)
		}
	}
	refused := &collect.Request{Namespace: "ns", Client: dial(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
	}))}
	if _, err := refused.Arming(t.Context()); err == nil || !strings.Contains(err.Error(), "your account needs the right to get the ConfigMap ns/plimsoll-arming") {
		t.Errorf("%v", err)
	}
}

func TestValidate_RefusesSelectors(t *testing.T) {
	for selector, valid := range map[string]bool{"": true, "a=b,c!=d,!e,f in (g,h)": true, "a=b=c": false, "a in": false} {
		r := &collect.Request{Selector: selector}
		if err := r.Validate(); err == nil != valid {
			t.Errorf("%q: %v", selector, err)
		}
	}
	both := &collect.Request{Selector: "a=b", Names: []string{"n"}}
	if err := both.Validate(); err == nil || !strings.Contains(err.Error(), "name nodes, or select them by labels") {
		t.Errorf("names and a selector: %v", err)
	}
}

func TestNodes_ExplainFaults(t *testing.T) {
	refuse := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for want, h := range map[string]http.Handler{
		"list nodes: forbidden: no: your account needs the right to list them": refuse(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"forbidden: no","code":403}`),
		"check the address of the API server":                                  refuse(http.StatusOK, `{}`),
		"list leases in the namespace ns":                                      refuse(http.StatusNotFound, `{}`),
	} {
		r := &collect.Request{Client: dial(t, h), Namespace: "ns"}
		if nodes, err := r.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), want) || len(nodes) > 0 {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Any writer of a lease can write any text and any time. No control character reaches a terminal, the output is bounded,
// and every format prints all nodes.
func TestNodes_TextsArePrintable(t *testing.T) {
	hostile := "\x1b[2J\u202e\u009b\n\t" + strings.Repeat("\x1b]0;title\x07", 10_000)
	c, r := serve(t, fakeapiserver.Size{Nodes: 1})
	c.AddLease(lease("evil", map[string]string{
		heartbeat.AnnotationVersion: "v" + hostile, heartbeat.AnnotationPod: hostile, heartbeat.AnnotationArmedReason: hostile,
		heartbeat.AnnotationFindings: strings.Repeat("a\x1b[31m,", 10_000), heartbeat.AnnotationConditions: strings.Repeat("MemoryPressure,\x1b[2J,", 1000),
		heartbeat.AnnotationThresholds: hostile, heartbeat.AnnotationSignals: "memory.available=1/2\x1b[2J,pid.available=1/2",
		heartbeat.AnnotationLastEviction: "2026-03-01T11:00:00Z a/\x1b[2J \u202ecause", heartbeat.AnnotationLastCheck: hostile,
	}))
	// In UTC, JSON has no form for these times.
	for i, text := range []string{"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		l := lease(fmt.Sprintf("evil-%d", i), map[string]string{heartbeat.AnnotationLastCheck: text, heartbeat.AnnotationLastEviction: text + " a/b cause"})
		l.Spec.RenewTime = &metav1.MicroTime{Time: at}
		c.AddLease(l)
	}
	nodes, err := r.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"", "wide", "json", "yaml", "kyaml", "name"} {
		cmd := &cobra.Command{}
		flags := output.AddTableFlags(cmd, true)
		if err := cmd.ParseFlags([]string{"--output=" + f}); err != nil {
			t.Fatal(err)
		}
		printer, err := flags.Printer()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printer.Print(&out, clusterstatus.NewList(nodes, noon)); err != nil {
			t.Fatal(err)
		}
		if at := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 || out.Len() > 32<<10 {
			t.Errorf("%q: %d bytes, the first that is not printed at %d: %.40q", f, out.Len(), at, out.String()[max(at, 0):])
		}
		if n := strings.Count(out.String(), "evil-"); n < 2 {
			t.Errorf("%q: %d of the nodes with such times are printed, want 2:\n%s", f, n, out.String())
		}
		if f != "name" && (!strings.Contains(out.String(), "MemoryPressure") || !strings.Contains(out.String(), "a/?[2J")) {
			t.Errorf("%q: facts are missing:\n%s", f, out.String())
		}
	}
}
