package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/heartbeat"
)

// agentLease returns the lease of an agent, renewed the given time ago.
func agentLease(node, armed, reason string, ago time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{
			heartbeat.AnnotationVersion: "v1", heartbeat.AnnotationArmed: armed, heartbeat.AnnotationArmedReason: reason}},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
}

// A fakeServer is an API server of leases and one ConfigMap, with every Node.
type fakeServer struct {
	leases  []coordinationv1.Lease
	watched func() // called when a watch of leases begins: the client has stored their list

	mu      sync.Mutex
	setting *corev1.ConfigMap // nil: not created
	patched int               // Nodes
}

func newFakeServer(t *testing.T, leases ...*coordinationv1.Lease) (d *fakeServer, kubeconfig string) {
	t.Helper()
	d = &fakeServer{watched: func() {}}
	for _, l := range leases {
		d.leases = append(d.leases, *l)
	}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: tuesday\ncontexts: [{name: tuesday, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: %q}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d, kubeconfig
}

func in(namespace string, l *coordinationv1.Lease) *coordinationv1.Lease {
	l.Namespace = namespace
	return l
}

func (d *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/"), "/")
	switch {
	case r.URL.Query().Get("sendInitialEvents") == "true":
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		d.watched()
		<-r.Context().Done()
	case r.URL.Path == "/apis/coordination.k8s.io/v1/leases":
		answer(w, &coordinationv1.LeaseList{TypeMeta: kindOf("coordination.k8s.io/v1", "LeaseList"), Items: d.leases})
	case strings.HasSuffix(r.URL.Path, "/leases"):
		list := &coordinationv1.LeaseList{TypeMeta: kindOf("coordination.k8s.io/v1", "LeaseList"), ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for _, l := range d.leases {
			if name, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); l.Namespace == namespace && (!one || name == l.Name) {
				list.Items = append(list.Items, l)
			}
		}
		answer(w, list)
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
		d.mu.Lock()
		defer d.mu.Unlock()
		d.patched++
		answer(w, &corev1.Node{TypeMeta: kindOf("v1", "Node")})
	default:
		d.configMaps(w, r)
	}
}

func (d *fakeServer) configMaps(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/nowhere/"):
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPost:
		d.setting = &corev1.ConfigMap{Data: map[string]string{"made": string(body)}}
		answer(w, &corev1.ConfigMap{TypeMeta: kindOf("v1", "ConfigMap")})
	case r.Method == http.MethodPatch && d.setting != nil:
		d.setting.Data = map[string]string{"patched": string(body)}
		answer(w, &corev1.ConfigMap{TypeMeta: kindOf("v1", "ConfigMap")})
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

func kindOf(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: kindOf("v1", "Status"), Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
}

// written returns the last text written to the ConfigMap, and an empty text without a
// ConfigMap.
func (d *fakeServer) written() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.setting == nil {
		return ""
	}
	return d.setting.Data["made"] + d.setting.Data["patched"]
}

// Without an agent the commands fail, and report where there are agents.
func TestArmingCommands_WithoutAgents(t *testing.T) {
	elsewhere := []*coordinationv1.Lease{in("prod", agentLease("a", "true", "", 0)), in("prod", agentLease("b", "true", "", 0)), in("kube-node-lease", new(coordinationv1.Lease))}
	for about, test := range map[string]struct {
		leases  []*coordinationv1.Lease
		exists  bool // the ConfigMap
		args    []string
		status  int
		want    []string // on standard output or error
		setting string   // in the ConfigMap afterwards
		ends    bool     // end the command once leases are listed: it waits for an agent that may start
	}{
		"disarm in the wrong namespace": {elsewhere, false, []string{"disarm", "--all"}, exitFailed,
			[]string{"no agent has a lease in the namespace plimsoll-system of the context tuesday (http://127.0.0.1:", `"disarmed" is written`, "Namespaces with agents: prod (2). Give --heartbeat-namespace"}, "disarmed", false},
		"disarm in the wrong cluster": {nil, true, []string{"disarm", "--all"}, exitFailed,
			[]string{"No namespace of this cluster has agents. Check the context"}, "disarmed", false},
		"disarm in a namespace that does not exist": {elsewhere, false, []string{"disarm", "--all", "--heartbeat-namespace=nowhere"}, exitFailed,
			[]string{"in the namespace nowhere", `"disarmed" is not written`, "prod (2)"}, "", false},
		"arm before anything is installed": {nil, false, []string{"arm", "--all"}, exitFailed,
			[]string{`"armed" is not written`}, "", false},
		"arm before agents exist": {nil, true, []string{"arm", "--all"}, exitFailed,
			[]string{`"armed" is written, and no agent follows it yet`}, "armed", false},
		"cleanup without ConfigMap": {elsewhere, false, []string{"cleanup", "--all"}, exitFailed, []string{`"cleanup" is not written`, "prod (2)"}, "", false},
		"cleanup with --allow-none": {nil, true, []string{"cleanup", "--all", "--allow-none"}, 0, []string{"nothing to clean up"}, "cleanup", false},
		"node without an agent": {elsewhere, false, []string{"disarm", "c", "--heartbeat-namespace=prod"}, exitFailed,
			[]string{"c: not disarmed", "in the namespace prod of the context tuesday", "for c", "leases of 2 other agents. Check the names"}, "", true},
		"node of another namespace": {elsewhere, false, []string{"disarm", "a"}, exitFailed,
			[]string{"for a", "Namespaces with agents: prod (2)"}, "", true},
		"one agent in the namespace": {[]*coordinationv1.Lease{in("prod", agentLease("a", "false", "", 0))}, true, []string{"disarm", "--all", "--heartbeat-namespace=prod"}, 0,
			[]string{"1 of 1 nodes: disarmed"}, "disarmed", false},
		"agents in two namespaces": {append(elsewhere, in("plimsoll-system", agentLease("c", "false", "", 0))), true, []string{"disarm", "--all"}, 0,
			[]string{"1 of 1 nodes: disarmed", "unaffected are the agents of other namespaces: prod (2). Repeat the command there with --heartbeat-namespace"}, "disarmed", false},
	} {
		t.Run(about, func(t *testing.T) {
			d, kubeconfig := newFakeServer(t, test.leases...)
			if test.exists {
				d.setting = &corev1.ConfigMap{}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.ends {
				d.watched = cancel
			}
			begun := time.Now()
			status, out, errs := plimsollIn(ctx, "", append(test.args, "--kubeconfig="+kubeconfig)...)
			if output := out + errs; status != test.status || strings.Contains(output, "0 of 0") {
				t.Errorf("status %d, want %d, after %s:\n%s", status, test.status, time.Since(begun), output)
			}
			for _, text := range test.want {
				if !strings.Contains(out+errs, text) {
					t.Errorf("no %q in\n%s%s", text, out, errs)
				}
			}
			if content := d.written(); (content == "") != (test.setting == "") || !strings.Contains(content, test.setting) {
				t.Errorf("the ConfigMap contains %q, want %q", content, test.setting)
			}
		})
	}
}

func TestArmingCommands_RejectInvalidUse(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	for _, test := range []struct {
		args   string
		status int
		want   []string
		not    string
	}{
		{"cleanup", exitInvalid, []string{"name the nodes, or give --all"}, "--local"},
		{"disarm", exitInvalid, []string{"--all and --local"}, ""},
		{"arm --all --accept-findings=nonsense,clock-skew-large,rubbish", exitInvalid, []string{"nonsense is no finding", "rubbish is no finding", "right-missing"}, "clock-skew-large is no"},
		{"arm n --accept-findings=clock-skew-large", exitFailed, []string{"--kubeconfig", "KUBECONFIG", "~/.kube/config", "service account"}, ""},
		{"doctor --cluster", exitFailed, []string{"--kubeconfig", "KUBECONFIG", "~/.kube/config", "service account"}, ""},
	} {
		status, _, errs := plimsoll("", strings.Fields(test.args)...)
		if status != test.status || test.not != "" && strings.Contains(errs, test.not) {
			t.Errorf("%s: %d: %s", test.args, status, errs)
		}
		for _, text := range test.want {
			if !strings.Contains(errs, text) {
				t.Errorf("%s: no %q in %s", test.args, text, errs)
			}
		}
	}
}

func TestArmingCommands_LocalDisarmFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "disarm")
	command := func(args ...string) (status int, out string) {
		var output bytes.Buffer
		status = run(t.Context(), args, nil, &output, &output)
		return status, output.String()
	}
	if status, out := command("disarm", "--local", "--disarm-file="+file); status != 0 || !strings.Contains(out, file+" exists") {
		t.Errorf("%d: %s", status, out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if status, out := command("arm", "--local", "--disarm-file="+file); status != 0 || !strings.Contains(out, file+" does not exist") {
		t.Errorf("%d: %s", status, out)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, args := range [][]string{{"arm"}, {"arm", "--all", "n"}, {"disarm", "--all", "--local"}, {"cleanup", "--local"}, {"cleanup"}, {"disarm", "--accept-findings=a", "n"}} {
		if status, out := command(args...); status != exitInvalid {
			t.Errorf("%v: %d: %s", args, status, out)
		}
	}
}
