package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/agent/config"
)

// recordOf returns the line of a record, some hours after midnight.
func recordOf(pod string, hour int) string {
	return fmt.Sprintf(`{"time":"2026-03-01T%02d:00:00Z","decision":"evict","signal":"memory.available","threshold":"memory.available<100Mi","conditions":[],"pod":%q,"uid":%q,`+
		`"choice":{"cause":"memory.available","kubelet":%q,"pods":2,"places":[{"place":1,"pod":%q,"uid":%q,"exceeds":true,"priority":0,"usage":314572800,"request":104857600,"frees":314572800},`+
		`{"place":2,"pod":"a/next","uid":"next","priority":0,"usage":104857600,"request":104857600,"frees":104857600}]},"end":"recovered"}`+"\n", hour, pod, pod, pod, pod, pod)
}

// recordServer serves ConfigMaps, two on a page, and objects by their paths, as an API server does. requests returns
// the paths that were read since the last call.
func recordServer(t *testing.T, nodes map[string]string, objects map[string]any) (kubeconfig string, requests func() []string) {
	t.Helper()
	var mu sync.Mutex
	var read []string
	object := func(name string) corev1.ConfigMap {
		return corev1.ConfigMap{TypeMeta: kindOf("v1", "ConfigMap"), ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"evictions": nodes[name]}}
	}
	names := []string{"n1", "n2", "n3"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const path = "/api/v1/namespaces/plimsoll-evictions/configmaps"
		name, one := strings.CutPrefix(r.URL.Path, path+"/")
		_, known := nodes[name]
		mu.Lock()
		read = append(read, strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"))
		mu.Unlock()
		if object, is := objects[r.URL.Path]; is {
			answer(w, object)
			return
		}
		switch {
		case one && known:
			m := object(name)
			answer(w, &m)
		case r.URL.Path == path && r.URL.Query().Get("continue") == "":
			answer(w, &corev1.ConfigMapList{TypeMeta: kindOf("v1", "ConfigMapList"), ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.ConfigMap{object(names[0]), object(names[1])}})
		case r.URL.Path == path:
			answer(w, &corev1.ConfigMapList{TypeMeta: kindOf("v1", "ConfigMapList"), Items: []corev1.ConfigMap{object(names[2]), {ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}}}})
		case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/secret/"):
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		default:
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: tuesday\ncontexts: [{name: tuesday, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: %q}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := read
		read = nil
		return all
	}
}

func TestWhy_ReadsRecords(t *testing.T) {
	kubeconfig, _ := recordServer(t, map[string]string{
		"n1": recordOf("shop/web", 1) + recordOf("shop/db", 5),
		"n2": "a later form\n" + recordOf("shop/web", 3),
		"n3": recordOf("bank/web", 2),
	}, nil)
	for _, test := range []struct {
		args   string
		status int
		want   []string // in this order
		not    string
	}{
		{"pod shop/web", 0, []string{"Pod shop/web was evicted from node n2", "2026-03-01T03:00:00Z", "a request of at least 300Mi", "was evicted from node n1", "Records of a form that plimsoll "}, "bank/web"},
		{"pod shop/web --last=1", 0, []string{"from node n2"}, "from node n1"},
		{"pod shop/web --node=n1", 0, []string{"from node n1"}, "n2"},
		{"node n1", 0, []string{"TIME", "2026-03-01T05:00:00Z  n1    shop/db   evict     memory.available<100Mi  recovered", "shop/web"}, "n2"},
		{"--last 3", 0, []string{"shop/db", "T03:00:00Z  n2    shop/web", "bank/web"}, "T01:00:00Z"},
		{"pod shop/none", exitFailed, []string{"no eviction of pod shop/none is recorded in the namespace plimsoll-evictions of the context tuesday (http://127.0.0.1:", "records of 3 nodes",
			"dropped after 30 days", "with its Node where no controller runs", "--last 20 in place of the pod", "kubectl -n shop describe pod none"}, ""},
		{"pod shop/web --node=n3", exitFailed, []string{"no eviction of pod shop/web", ", for node n3"}, ""},
		{"pod secret/web", exitFailed, []string{"no eviction of pod secret/web", "Whether the pod exists is not known, which needs the right to get pods"}, ""},
		{"pod secret/web --node=n1", exitFailed, []string{"no eviction of pod secret/web", "Whether the pod exists is not known, "}, ""},
		{"pod shop/none --timeout=1ns", exitFailed, []string{"not all records were read within 1ns: name the node of the pod with --node, or give a longer --timeout"}, "no eviction"},
		{"node n9", exitFailed, []string{"no eviction is recorded", "there is no ConfigMap n9", "kubectl plimsoll status", "NoPodHelps"}, ""},
		{"node n1 --eviction-record-namespace=secret", exitFailed, []string{"needs the right to get configmaps", "ClusterRole view"}, ""},
		{"--last=5 --eviction-record-namespace=secret", exitFailed, []string{"needs the right to list configmaps"}, ""},
	} {
		status, out, errs := plimsoll("", append(append([]string{"why"}, strings.Fields(test.args)...), "--kubeconfig="+kubeconfig)...)
		text := out + errs
		if status != test.status || test.not != "" && strings.Contains(text, test.not) {
			t.Errorf("%s: status %d, want %d without %q:\n%s", test.args, status, test.status, test.not, text)
		}
		rest := text
		for _, part := range test.want {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s: no %q in its place in\n%s", test.args, part, text)
				break
			}
			rest = after
		}
	}
}

// podOn returns a pod that the API server has, bound to a node.
func podOn(name, uid, node string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: kindOf("v1", "Pod"), ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node}}
}

// mirrorOf returns the mirror pod of a static pod.
func mirrorOf(static, node string) *corev1.Pod {
	pod := podOn("web", "mirror", node)
	pod.Annotations = map[string]string{"kubernetes.io/config.mirror": static}
	return pod
}

// The records of one node are enough if they have the pod that the API server has. The UID distinguishes it from earlier
// pods of its name, which other nodes may have evicted; that of a static pod is an annotation of its mirror pod.
func TestWhy_ReadsNodeOfPodFirst(t *testing.T) {
	all := []string{"plimsoll-evictions/configmaps", "plimsoll-evictions/configmaps"} // two pages
	nodes := map[string]string{"n1": recordOf("shop/web", 1), "n2": recordOf("shop/web", 3), "n3": recordOf("shop/db", 2)}
	for about, test := range map[string]struct {
		pod   *corev1.Pod
		args  string
		reads []string
		want  string
		not   string
	}{
		"evicted":             {podOn("web", "shop/web", "n2"), "", []string{"shop/pods/web", "plimsoll-evictions/configmaps/n2"}, "Read: the records of node n2", "from node n1"},
		"evicted, all nodes":  {podOn("web", "shop/web", "n2"), "--all-nodes", all, "from node n1", "Read: "},
		"evicted, other node": {podOn("web", "shop/web", "n2"), "--node=n1", []string{"plimsoll-evictions/configmaps/n1"}, "from node n1", "Read: "},
		"a later pod":         {podOn("web", "another", "n2"), "", append([]string{"shop/pods/web", "plimsoll-evictions/configmaps/n2"}, all...), "The present one has no record: UID another, on node n2.\n\nPod shop/web was", "Read: "},
		"without a record":    {podOn("web", "another", "n9"), "", append([]string{"shop/pods/web", "plimsoll-evictions/configmaps/n9"}, all...), "from node n1", "Read: "},
		"not scheduled":       {podOn("web", "another", ""), "", append([]string{"shop/pods/web"}, all...), "has no record: UID another, on no node yet.", "Read: "},
		"static pod":          {mirrorOf("shop/web", "n2"), "", []string{"shop/pods/web", "plimsoll-evictions/configmaps/n2"}, "Read: the records of node n2", "The present one"},
		"a later static pod":  {mirrorOf("later", "n2"), "", append([]string{"shop/pods/web", "plimsoll-evictions/configmaps/n2"}, all...), "The present one has no record: UID later, on node n2.", "Read: "},
		"UID of another node": {mirrorOf("shop/web", "n9"), "", append([]string{"shop/pods/web", "plimsoll-evictions/configmaps/n9"}, all...), "The present one has no record: UID shop/web, on node n9.", "Read: "},
		"gone":                {podOn("other", "other", "n2"), "", append([]string{"shop/pods/web"}, all...), "from node n1", "The present one"},
	} {
		kubeconfig, requests := recordServer(t, nodes, map[string]any{"/api/v1/namespaces/shop/pods/" + test.pod.Name: test.pod})
		args := append([]string{"why", "pod", "shop/web", "--kubeconfig=" + kubeconfig}, strings.Fields(test.args)...)
		status, out, errs := plimsoll("", args...)
		if status != 0 || !strings.Contains(out, test.want) || strings.Contains(out, test.not) {
			t.Errorf("%s: status %d, want %q without %q:\n%s%s", about, status, test.want, test.not, out, errs)
		}
		if got := requests(); !slices.Equal(got, test.reads) {
			t.Errorf("%s: read %q, want %q", about, got, test.reads)
		}
	}
}

// A pod stays on its node: a record of another node that has its UID is false.
func TestWhy_RecordOfAnotherNodeIsFalse(t *testing.T) {
	nodes := map[string]string{"n1": strings.ReplaceAll(recordOf("shop/web", 1), `"uid":"shop/web"`, `"uid":"web-uid"`), "n2": "", "n3": ""}
	pod := podOn("web", "web-uid", "n2")
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	kubeconfig, _ := recordServer(t, nodes, map[string]any{"/api/v1/namespaces/shop/pods/web": pod})
	status, out, errs := plimsoll("", "why", "pod", "shop/web", "--kubeconfig="+kubeconfig)
	if status != exitFailed || !strings.Contains(errs, "no eviction of pod shop/web is recorded") || !strings.Contains(out, "is on node n2. It has not been evicted") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// A pod without a record gets its standing, from its Node, the lease of the agent, and the places in records of others.
// What the user may not read is named.
func TestWhy_StandingOfLivingPod(t *testing.T) {
	pod := podOn("next", "next", "n1")
	pod.Namespace, pod.Status.Phase, pod.Spec.Containers = "a", corev1.PodRunning, []corev1.Container{{Name: "c"}}
	node := &corev1.Node{TypeMeta: kindOf("v1", "Node"), ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: "plimsoll.dev/MemoryPressure", Status: corev1.ConditionTrue},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	lease := &coordinationv1.Lease{TypeMeta: kindOf("coordination.k8s.io/v1", "Lease"), ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"plimsoll.dev/armed": "true", "plimsoll.dev/armed-reason": "flag", "plimsoll.dev/last-check": "noon"}},
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}}}
	all := map[string]any{"/api/v1/namespaces/a/pods/next": pod, "/api/v1/nodes/n1": node, "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases/n1": lease}
	only := map[string]any{"/api/v1/namespaces/a/pods/next": pod}
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	old := lease.DeepCopy()
	old.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	lapsed := maps.Clone(all)
	lapsed["/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases/n1"] = old
	nodes := map[string]string{"n1": recordOf("shop/web", 1), "n2": "", "n3": ""}
	for about, test := range map[string]struct {
		objects map[string]any
		args    string
		want    []string // in this order
	}{
		"everything is readable": {all, "", []string{"Pod a/next is on node n1", "Agent:    armed, flag. Last check: noon\n", "memory.available", "pressure of the node:  True", "2 of 2 for memory.available at 2026-03-01T01:00:00Z: uses 100Mi, within its request of 100Mi",
			"nodefs.available", "pressure of the node:  False", "pid.available", "pressure of the node:  Unknown", "Not known to the cluster"}},
		"of a named node":   {all, "--node=n2", []string{"Pod a/next is on node n1", "2 of 2 for memory.available"}},
		"the pod alone":     {only, "", []string{"Pod a/next is on node n1", "none: there is no lease plimsoll-system/n1", "memory.available", "pressure of the node:  Unknown", "The pressure of node n1, which needs the right to get nodes"}},
		"another namespace": {all, "--heartbeat-namespace=x", []string{"there is no lease x/n1"}},
		"as an object":      {all, "-o json", []string{`"node": "n1",`, `"standing": {`, `"pressure": "True"`, `"place": 2`}},
		"no heartbeat":      {lapsed, "", []string{"Agent:    without a heartbeat since 2026-03-01T10:00:00Z: it may be gone. Before, it was armed, flag"}},
		"it has ended":      {map[string]any{"/api/v1/namespaces/a/pods/next": ended}, "", nil},
	} {
		kubeconfig, _ := recordServer(t, nodes, test.objects)
		status, out, errs := plimsoll("", append([]string{"why", "pod", "a/next", "--kubeconfig=" + kubeconfig}, strings.Fields(test.args)...)...)
		if status != exitFailed || !strings.Contains(errs, "no eviction of pod a/next is recorded") || (out == "") != (test.want == nil) {
			t.Errorf("%s: status %d, %s%s", about, status, errs, out)
		}
		rest := out
		for _, part := range test.want {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s: no %q in its place in\n%s", about, part, out)
				break
			}
			rest = after
		}
	}
}

func TestWhy_WritesObjects(t *testing.T) {
	kubeconfig, _ := recordServer(t, map[string]string{"n1": recordOf("shop/web", 1), "n2": "", "n3": ""}, nil)
	status, out, errs := plimsoll("", "why", "pod", "shop/web", "-o", "json", "--kubeconfig="+kubeconfig)
	var document struct {
		APIVersion, Kind string
		Items            []struct {
			Node     string
			Eviction struct {
				Pod    string
				Choice struct{ Places []struct{ Usage int64 } }
			}
			Next    string
			Changes []struct {
				What     string
				From, To int64
			}
		}
	}
	err := json.Unmarshal([]byte(out), &document)
	all := document.Items
	if document.APIVersion != "plimsoll.dev/v1alpha1" || document.Kind != "EvictionExplanationList" || status != 0 || err != nil {
		t.Fatalf("%d, %v: %s%s", status, err, out, errs)
	}
	if len(all) != 1 || all[0].Node != "n1" || all[0].Eviction.Pod != "shop/web" || all[0].Eviction.Choice.Places[0].Usage != 314572800 || all[0].Next != "a/next" ||
		len(all[0].Changes) == 0 || all[0].Changes[0].What != "request" || all[0].Changes[0].From != 104857600 || all[0].Changes[0].To != 300<<20 {
		t.Errorf("%+v", all)
	}
	status, out, errs = plimsoll("", "why", "pod", "shop/web", "-o", "yaml", "--kubeconfig="+kubeconfig)
	for _, line := range []string{"kind: EvictionExplanationList\n", "- changes:\n", "  eviction:\n", "    pod: shop/web\n", "  node: n1\n", "    to: 314572800\n"} {
		if status != 0 || !strings.Contains(out, line) {
			t.Errorf("%d, no %q: %s%s", status, line, out, errs)
		}
	}
}

func TestWhy_RejectsInvalidUse(t *testing.T) {
	for args, want := range map[string]string{
		"pod":                           "must be pod NAMESPACE/NAME or node NODE",
		"pod web":                       `"web": must be NAMESPACE/NAME`,
		"pod a/b/c":                     "must be NAMESPACE/NAME",
		"pod /web":                      "must be NAMESPACE/NAME",
		"node n1 n2":                    "must be pod NAMESPACE/NAME or node NODE",
		"node n1 --node=n2":             "must be pod NAMESPACE/NAME or node NODE",
		"namespace shop":                "must be pod NAMESPACE/NAME or node NODE",
		"pod shop/web --last=-1":        "must be at least 0",
		"pod shop/web --output=verbose": "must be text, json or yaml",
		"pod a/b --all-nodes --node=n2": "must not be given with --node",
	} {
		if status, _, errs := plimsoll("", append([]string{"why"}, strings.Fields(args)...)...); status != exitInvalid || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, errs, want)
		}
	}
}

// The defaults are those of the agents.
func TestWhy_DefaultsOfAgents(t *testing.T) {
	agent := config.NewAgent()
	for flag, want := range map[string]string{"eviction-record-namespace": agent.EvictionRecordNamespace, "heartbeat-namespace": agent.HeartbeatNamespace} {
		if got := whyCommand().Flags().Lookup(flag).DefValue; got != want {
			t.Errorf("--%s is %s by default, want %s", flag, got, want)
		}
	}
}
