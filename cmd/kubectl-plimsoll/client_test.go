package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// start serves a cluster of three nodes, of which the first two have agents, and returns the path of
// the kubeconfig.
func start(t *testing.T, namespace string) (c *fakeapiserver.Cluster, kubeconfig string) {
	t.Helper()
	return serve(t, namespace, fakeapiserver.Size{Nodes: 3, Images: 2}, "true", "false")
}

// serve serves a cluster in which the first nodes have an agent that is armed or not.
func serve(t testing.TB, namespace string, size fakeapiserver.Size, armed ...string) (c *fakeapiserver.Cluster, kubeconfig string) {
	t.Helper()
	c = fakeapiserver.New(size)
	for i, armed := range armed {
		renewed, seconds := metav1.NewMicroTime(time.Now()), int32(40)
		c.AddLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fakeapiserver.NodeName(i), Annotations: map[string]string{
				heartbeat.AnnotationVersion: "0.3.0", heartbeat.AnnotationArmed: armed, heartbeat.AnnotationArmedReason: "the ConfigMap",
				heartbeat.AnnotationSignals: "memory.available=524288000/104857600"}},
			Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed},
		})
	}
	s, err := c.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return c, s.Kubeconfig
}

// patient replaces bounds after which a command goes on without the result of a step: a machine that pauses exceeds them.
const patient = time.Minute

// execute runs the client without a terminal.
func execute(args ...string) (status int, out, errs string) {
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	status = runRoot(newRoot(&client{streams: streams, patience: patient}), args, streams)
	return status, o.String(), e.String()
}

func TestStatus_PrintsEachFormat(t *testing.T) {
	c, kubeconfig := start(t, heartbeat.Namespace)
	for _, tc := range []struct {
		args []string
		want []string // in this order
	}{
		{nil, []string{"NODE ", "AGENT", "node-000002   missing", "node-000001   disarmed", "node-000000   armed", "memory.available 500Mi >= 100Mi", "30d", "3 nodes: 1 armed, 1 disarmed, 1 missing\n"}},
		{[]string{"-o", "wide"}, []string{"REASON", "SIGNALS", "the ConfigMap"}},
		{[]string{"-o", "name"}, []string{"node/node-000002\nnode/node-000001\nnode/node-000000\n"}},
		{[]string{"-o", "json"}, []string{`"apiVersion": "plimsoll.dev/v1alpha1"`, `"kind": "NodeStatusList"`, `"attention": "agent-missing"`, `"available": 524288000`}},
		{[]string{"-o", "yaml", "node-000001"}, []string{"- agent: disarmed\n", "name: node-000001\n"}},
		{[]string{"-l", "topology.kubernetes.io/zone=eu-1b", "--output=name"}, []string{"node/node-000001\n"}},
	} {
		status, out, errs := execute(append([]string{"status", "--kubeconfig", kubeconfig}, tc.args...)...)
		rest := out
		for _, want := range tc.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%v: no %q in its place in\n%s", tc.args, want, out)
			}
			rest = after
		}
		if status != 0 || errs != "" || strings.Contains(out, "\x1b") {
			t.Errorf("%v: status %d, %s", tc.args, status, errs)
		}
	}
	if calls := c.Calls(); calls["LIST nodes"] != 6 || calls["LIST leases"] != 6 || len(calls) != 2 {
		t.Errorf("calls of six commands: %v", calls)
	}
}

func TestRun_ExitStatuses(t *testing.T) {
	_, kubeconfig := start(t, "elsewhere")
	missing := filepath.Join(t.TempDir(), "none")
	for _, tc := range []struct {
		line   string // KUBECONFIG is the kubeconfig
		status int
		errs   string
	}{
		{"status", 0, "No agent of these nodes has a lease in the namespace plimsoll-system of the context simulated (https://127.0.0.1:"},
		{"status --heartbeat-namespace elsewhere", 0, ""},
		{"status node-000001 node-9 --heartbeat-namespace elsewhere", 1, `find the node "node-9": neither a Node nor the lease of an agent in the namespace elsewhere has that name`},
		{"status node-9", 1, `find the node "node-9"`},
		{"status -o xml", 2, `--output: "xml": must be one of wide, json, yaml, kyaml, name, go-template`},
		{"status -l a=b=c", 2, `--selector: "a=b=c"`},
		{"status --unknown", 2, "unknown flag: --unknown"},
		{"status --context other", 1, `use the kubeconfig: context "other" does not exist`},
		{"status --kubeconfig " + missing, 1, "no such file"},
		{"status --request-timeout=soon", 1, "use the kubeconfig"},
		{"version", 0, ""},
		{"version --client --kubeconfig " + missing, 0, ""},
		{"version --kubeconfig " + missing, 1, "no such file"},
		{"version -o name", 2, `--output: "name": must be one of wide, json`},
		{"version now", 2, `kubectl plimsoll version takes no arguments beside flags: "now" was given`},
		{"", 0, ""},
		{"--version", 0, ""},
		{"help", 0, ""},
		{"help status", 0, ""},
		{"help foo", 2, `unknown command "foo": kubectl plimsoll help lists the commands`},
		{"help status foo", 2, `unknown command "status foo"`},
		{"foo", 2, `unknown command "foo" for "kubectl plimsoll"`},
	} {
		t.Setenv("KUBECONFIG", kubeconfig)
		status, out, errs := execute(strings.Fields(tc.line)...)
		if status != tc.status || !strings.Contains(errs, tc.errs) || errs == "" != (tc.errs == "") || tc.status == 0 && out == "" {
			t.Errorf("kubectl plimsoll %s: status %d, want %d\n%s%s", tc.line, status, tc.status, out, errs)
		}
	}
	t.Setenv("KUBECONFIG", missing)
	if status, _, errs := execute("status"); status != 1 || !strings.Contains(errs, "no API server is known: give --kubeconfig") {
		t.Errorf("without a kubeconfig: status %d, %s", status, errs)
	}
}

func TestVersion_CountsAgents(t *testing.T) {
	_, kubeconfig := start(t, heartbeat.Namespace)
	t.Setenv("KUBECONFIG", kubeconfig)
	for line, want := range map[string]string{
		"version":                               "COMPONENT   VERSION   NODES\nclient      devel     <none>\nagent       0.3.0     2\n",
		"version --client":                      "COMPONENT   VERSION   NODES\nclient      devel     <none>\n",
		"--version":                             "kubectl plimsoll version devel\n",
		"version --heartbeat-namespace=nowhere": "COMPONENT   VERSION   NODES\nclient      devel     <none>\n",
		"version --client -o wide":              "PLATFORM",
	} {
		status, out, errs := execute(strings.Fields(line)...)
		if status != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%s: status %d, got\n%s%swant\n%s", line, status, out, errs, want)
		}
	}
}

func TestCompletion_OfNodesAndFlags(t *testing.T) {
	const templates = "go-template go-template-file template templatefile jsonpath jsonpath-as-json jsonpath-file"
	_, kubeconfig := start(t, heartbeat.Namespace)
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, tc := range []struct{ args, want []string }{
		{[]string{"status", ""}, []string{"node-000000", "node-000001"}},
		{[]string{"status", "node-000000", ""}, []string{"node-000001"}},
		{[]string{"status", "x"}, nil},
		{[]string{"status", "--kubeconfig=/nowhere", ""}, nil},
		{[]string{"status", "-o", ""}, strings.Fields("wide json yaml kyaml name " + templates)},
		{[]string{"version", "-o", ""}, strings.Fields("wide json yaml kyaml " + templates)},
		{[]string{"why", ""}, []string{"pod", "node"}},
		{[]string{"why", "node", ""}, []string{"node-000000", "node-000001"}},
		{[]string{"why", "pod", "a", "--node", ""}, []string{"node-000000", "node-000001"}},
		{[]string{"why", "--output", ""}, strings.Fields("json yaml kyaml " + templates)},
		{[]string{"status", "--context", ""}, []string{"simulated"}},
		{[]string{"arm", "node-000000", ""}, []string{"node-000001"}},
		{[]string{"disarm", ""}, []string{"node-000000", "node-000001"}},
		{[]string{"cleanup", "node-000000", ""}, []string{"node-000001"}},
		{[]string{"arm", "--selector", ""}, nil},
		{[]string{"arm", "--accept-findings", "clock-skew"}, []string{"clock-skew-large"}},
		{[]string{"arm", "--accept-findings", "right-missing,clock-skew-l"}, []string{"right-missing,clock-skew-large"}},
		{[]string{"arm", "--accept-findings", "right-missing,right-missing"}, nil},
		{[]string{"doctor", ""}, nil},
		{[]string{"doctor", "-o", ""}, strings.Fields("json yaml kyaml " + templates)},
		{[]string{"version", ""}, nil},
	} {
		status, out, errs := execute(append([]string{"__complete"}, tc.args...)...)
		before, directive, _ := strings.Cut("\n"+out, "\n:")
		if got := strings.Fields(before); status != 0 || strings.Join(got, " ") != strings.Join(tc.want, " ") || !isNoFile(directive) {
			t.Errorf("%q: status %d, %q, directive %s\n%s", tc.args, status, got, directive, errs)
		}
	}
}

// isNoFile reports whether a directive of cobra excludes names of files.
func isNoFile(directive string) bool {
	var bits int
	_, err := fmt.Sscan(directive, &bits)
	return err == nil && bits&4 != 0 && bits&1 == 0
}

// The whole command: connection with TLS, lists, conversion, table.
func BenchmarkStatus_5000(b *testing.B) {
	_, kubeconfig := serve(b, heartbeat.Namespace, fakeapiserver.Size{Nodes: 5000, Images: 30}, slices.Repeat([]string{"true"}, 5000)...)
	for b.Loop() {
		if status, out, errs := execute("status", "--kubeconfig", kubeconfig); status != 0 || strings.Count(out, "\n") != 5002 {
			b.Fatal(status, errs)
		}
	}
}
