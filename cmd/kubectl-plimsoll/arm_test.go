package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"plimsoll.dev/plimsoll/cmd/internal/armcmd"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// A fleet has agents that follow the settings of the cluster, on each node but the last. The first one is dead, and the
// second one has a finding.
type fleet struct {
	*fakeapiserver.Cluster
	size int

	mu    sync.Mutex
	all   arming.Source
	nodes map[string]arming.Source
}

func newFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	c, kubeconfig := serve(t, heartbeat.Namespace, fakeapiserver.Size{Nodes: nodes, Images: 1})
	t.Setenv("KUBECONFIG", kubeconfig)
	f := &fleet{Cluster: c, size: nodes, nodes: map[string]arming.Source{}}
	for i := range nodes - 1 {
		f.renew(i)
	}
	f.follow(t, "nodes", func(name string, annotations, _ map[string]string) {
		f.nodes[name] = arming.Source{Setting: annotations[arming.Annotation], Accepted: annotations[arming.AnnotationAccept]}
	})
	f.follow(t, "configmaps", func(_ string, _, data map[string]string) {
		f.all = arming.Source{Setting: data[arming.KeyAll], Accepted: data[arming.KeyAccept]}
	})
	return f
}

// renew writes the lease of a node's agent, unless it is dead.
func (f *fleet) renew(i int) {
	at := time.Now()
	if i == 0 {
		at = at.Add(-time.Hour)
	}
	f.renewed(i, at)
}

func (f *fleet) renewed(i int, at time.Time) {
	name := fakeapiserver.NodeName(i)
	w := arming.Inputs{DryRun: true, Memory: arming.Memory{All: f.all, Node: f.nodes[name], Findings: arming.Findings{Known: true}}}
	if i == 1 {
		w.Findings.Errors = []string{"clock-skew-large"}
	}
	v := w.Decide()
	if v.State == arming.CleaningUp { // at once
		v.Reason = arming.CleanedUp
	}
	renewed, seconds := metav1.NewMicroTime(at), int32(40)
	f.AddLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: heartbeat.Namespace, Name: name, Annotations: map[string]string{
			heartbeat.AnnotationVersion: "0.3.0", heartbeat.AnnotationArmed: strconv.FormatBool(v.State == arming.Armed), heartbeat.AnnotationArmedReason: v.Reason,
			heartbeat.AnnotationFindings: strings.Join(w.Findings.Errors, ",")}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	})
}

// follow renews the living agents at each change of a resource.
func (f *fleet) follow(t *testing.T, resource string, take func(name string, annotations, data map[string]string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := f.Watch(ctx, schema.GroupResource{Resource: resource}, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for e := range w.ResultChan() {
			f.mu.Lock()
			switch o := e.Object.(type) {
			case *corev1.Node:
				take(o.Name, o.Annotations, nil)
			case *corev1.ConfigMap:
				take(o.Name, nil, o.Data)
			}
			for i := 1; i < f.size-1; i++ {
				f.renew(i)
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); group.Wait() })
}

// answered runs the client on a terminal with an answer.
func answered(answer string, line string) (status int, out, errs string) {
	streams, in, o, e := genericiooptions.NewTestIOStreams()
	in.WriteString(answer)
	status = runRoot(newRoot(&client{streams: streams, interactive: true, patience: patient}), strings.Fields(line), streams)
	return status, o.String(), e.String()
}

// writes counts the writes of settings.
func (f *fleet) writes() int {
	calls := f.Calls()
	return calls["PATCH nodes"] + calls["PATCH configmaps"] + calls["POST configmaps"]
}

// Each step changes the cluster for the next one.
func TestArm_FleetInSteps(t *testing.T) {
	f := newFleet(t, 8)
	const zone = "topology.kubernetes.io/zone=eu-1a" // of the nodes 0, 3 and 6
	for _, step := range []struct {
		line, answer string
		status       int
		notes        []string // on standard error, in this order
		out          string
		writes       int
	}{
		{"cleanup node-000002", "n\n", 1, []string{"Clean up 1 node of the context simulated (https://", "to be cleaned up       1  node-000002\n", "Clean up 1 node? [y/N] ", "not confirmed: nothing was changed"}, "", 0},
		{"cleanup node-000002", "y\n", 0, []string{"Clean up 1 node? [y/N] "}, "node-000002: cleaned-up (cleaned-up)\n1 of 1 nodes: cleaned-up\n", 1},
		{"cleanup node-000002", "", 0, []string{"cleaned up already     1\n"}, "There is nothing to change\n", 0},
		{"arm node-000003", "n\n", 1, []string{"Arm 1 node of the context simulated (https://", "to be armed            1  node-000003\n", "Arm 1 node? [y/N] ", "not confirmed: nothing was changed"}, "", 0},
		{"arm node-000003", "", 1, []string{"not confirmed"}, "", 0},
		{"arm node-000003", " Yes\n", 0, []string{"Arm 1 node? [y/N] "}, "node-000003: armed (the Node's annotation is set to armed)\n1 of 1 nodes: armed\n", 1},
		{"arm node-000003", "", 0, []string{"armed already          1\n"}, "There is nothing to change\n", 0},
		{"arm -l " + zone + " --max 1", "y\n", 0, []string{"to be armed            1  node-000006\n", "silent agent           1  node-000000\n", "armed already          1\n"}, "node-000006: armed (the Node's annotation is set to armed)\n1 of 1 nodes: armed\n", 1},
		{"arm -l " + zone + " --max 1", "", 1, []string{"Arm 0 nodes", "silent agent", "nothing was changed, and 1 nodes do not follow"}, "", 0},
		{"arm --all --max 2 --yes", "", 0, []string{"to be armed            2  node-000002, node-000004\n", "left for later         1  --max is 2\n", "staying disarmed       1\n    node-000001: refused: clock-skew-large\n",
			"no agent               1  node-000007\n", "armed already          2\n"}, "node-000002: armed (the Node's annotation is set to armed)\nnode-000004: armed (the Node's annotation is set to armed)\n2 of 2 nodes: armed\n", 2},
		{"disarm node-000004 node-9 --yes", "", 1, []string{"to be disarmed         1  node-000004\n", `find the node "node-9"`}, "node-000004: disarmed (the Node's annotation is set to disarmed)\n1 of 1 nodes: disarmed\n", 1},
		{"arm node-000004 node-9 --yes", "", 1, []string{`find the node "node-9"`, "nothing was changed"}, "", 0},
		{"arm node-000004 --yes", "", 0, []string{"to be armed            1  node-000004\n"}, "1 of 1 nodes: armed\n", 1},
		{"disarm node-9 --yes", "", 1, []string{"There is no preview: find the node", `write the setting "disarmed" to the node node-9: `}, "", 1},
		{"disarm --all --yes", "", 0, []string{"Disarm all nodes of the context", "by the ConfigMap plimsoll-system/plimsoll-arming:\n", "to be disarmed         4  node-000002, node-000003, node-000004, node-000006\n"}, "7 of 7 nodes: disarmed\n", 2},
		{"arm -l " + zone + " --max 1", "", 1, []string{"staying disarmed       2\n    node-000003: the ConfigMap plimsoll-arming is set to disarmed\n", "nothing was changed, and 3 nodes do not follow"}, "", 0},
		{"arm --all --accept-findings=clock-skew-large --yes", "", 1, []string{"to be armed            6  node-000001, node-000002, node-000003, node-000004, node-000005, node-000006\n", "not every node has followed"},
			"node-000000: not armed: no agent has renewed its lease since ", 1},
	} {
		before := f.writes()
		status, out, errs := answered(step.answer, step.line)
		if status != step.status || !strings.Contains(out, step.out) || (out == "") != (step.out == "") || f.writes()-before != step.writes {
			t.Errorf("%s: status %d, %d writes, %swant %d, %d, %s", step.line, status, f.writes()-before, out, step.status, step.writes, step.out)
		}
		rest := errs
		for _, want := range step.notes {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: no %q in its place in\n%s", step.line, want, errs)
				break
			}
			rest = after
		}
	}
	status, out, errs := execute("status", "-o", "jsonpath={range .items[?(@.agent==\"armed\")]}{.name} {end}")
	if want := "node-000001 node-000002 node-000003 node-000004 node-000005 node-000006"; status != 0 || strings.Join(strings.Fields(out), " ") != want {
		t.Errorf("armed are %s%s, want %s", out, errs, want)
	}
}

// A message has the nodes that do not follow first.
func TestArm_FailuresFirst(t *testing.T) {
	newFleet(t, 4)
	status, out, errs := execute("arm", "node-000002", "node-000000", "--yes")
	lines := strings.Split(out, "\n")
	if status != exitFailed || len(lines) != 4 || !strings.HasPrefix(lines[0], "node-000000: not armed: ") || !strings.HasPrefix(lines[1], "node-000002: armed (") || lines[2] != "1 of 2 nodes: armed" {
		t.Errorf("status %d, %s%s", status, out, errs)
	}
}

// The setting for all nodes is written once. A dead agent does not fail an uninstallation.
func TestCleanup_AllNodes(t *testing.T) {
	f := newFleet(t, 3)
	status, out, errs := execute("cleanup", "--all", "--yes")
	notes := "by the ConfigMap plimsoll-system/plimsoll-arming:\n  to be cleaned up       1  node-000001\n  silent agent           1  node-000000\n  no agent               1  node-000002\n"
	if status != 0 || !strings.HasPrefix(out, "node-000000: not cleaned-up: no agent has renewed its lease since ") ||
		!strings.HasSuffix(out, "\nnode-000001: cleaned-up (cleaned-up)\n1 of 2 nodes: cleaned-up\n") || !strings.HasPrefix(errs, "Clean up all nodes of the context simulated ") || !strings.Contains(errs, notes) {
		t.Errorf("status %d, %s%s", status, out, errs)
	}
	if f.writes() != 2 { // the second one creates the ConfigMap
		t.Errorf("calls: %v", f.Calls())
	}
}

func TestArm_RefusesInvalidUse(t *testing.T) {
	f := newFleet(t, 3)
	for line, want := range map[string]string{
		"arm":                         "name the nodes, or give one of --all and --selector",
		"arm --all node-000001 --yes": "name the nodes, or give one of --all and --selector",
		"disarm --all -l a=b --yes":   "name the nodes, or give one of --all and --selector",
		"arm -l a=b=c --yes":          `--selector: "a=b=c"`,
		"arm --all --max=-1 --yes":    "--max: -1: must be at least 0",
		"arm --all --max=some":        "--max",
		"arm node-000001":             "standard input is no terminal, which a confirmation needs: give --yes",
		"disarm --all":                "standard input is no terminal",
		"cleanup --all":               "standard input is no terminal",
		"cleanup":                     "name the nodes, or give one of --all and --selector",
		"arm --all --yes --accept-findings=of-another": "--accept-findings: of-another is no finding of the doctor",
		"disarm n --accept-findings=x":                 "unknown flag",
	} {
		if status, out, errs := execute(strings.Fields(line)...); status != exitInvalid || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s%s, want %q", line, status, out, errs, want)
		}
	}
	for line, want := range map[string]string{
		"arm -l a=b --yes": `--selector: "a=b": no node of the context simulated (https://`,
		"arm -l topology.kubernetes.io/zone=eu-1c --yes":                                    "no agent of these nodes has a lease in the namespace plimsoll-system",
		"disarm -l topology.kubernetes.io/zone=eu-1a --heartbeat-namespace=elsewhere --yes": "for agents in another namespace, give --heartbeat-namespace",
		"arm --all --max 1 --heartbeat-namespace=elsewhere --yes":                           "no agent of these nodes has a lease in the namespace elsewhere",
	} {
		if status, out, errs := execute(strings.Fields(line)...); status != exitFailed || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "nothing was changed") {
			t.Errorf("%s: status %d, %s%s, want %q", line, status, out, errs, want)
		}
	}
	if f.writes() != 0 {
		t.Errorf("calls: %v", f.Calls())
	}
	if _, _, errs := execute("arm", "node-000001"); !strings.Contains(errs, "Arm 1 node of the context simulated") {
		t.Errorf("without a terminal there is no preview: %s", errs)
	}
	for _, tc := range [][2]string{ // the second one creates the ConfigMap
		{"arm --all --heartbeat-namespace=elsewhere --yes", `"armed" is not written`},
		{"disarm --all --heartbeat-namespace=elsewhere --yes", "Namespaces with agents: plimsoll-system (2). Give --heartbeat-namespace"},
	} {
		if status, out, errs := execute(strings.Fields(tc[0])...); status != exitFailed || out != "" || !strings.Contains(errs, tc[1]) {
			t.Errorf("%s: status %d, %s%s, want %q", tc[0], status, out, errs, tc[1])
		}
	}
}

// A stop does not wait for an API server that cannot list its Nodes.
func TestDisarm_NeedsNoPreview(t *testing.T) {
	c := fakeapiserver.New(fakeapiserver.Size{Nodes: 1, Images: 1})
	reporting(c, 0, "") // armed
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			<-r.Context().Done()
			return
		}
		c.ServeHTTP(w, r)
	}))
	defer server.Close()
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cl := &client{streams: streams, flags: user.AddFlags(flags), agents: heartbeat.Namespace}
	if err := flags.Parse([]string{"--server=" + server.URL, "--kubeconfig=" + os.DevNull}); err != nil {
		t.Fatal(err)
	}
	connection, err := cl.flags.Dial("test")
	if err != nil {
		t.Fatal(err)
	}
	x := &armingCommand{Command: armcmd.New(arming.Disarm, "", ""), client: cl, yes: true, stopPreview: time.Millisecond}
	x.Request.All, x.Request.Timeout = true, time.Minute
	w, err := c.Watch(t.Context(), schema.GroupResource{Resource: "configmaps"}, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // the agent
		<-w.ResultChan()
		f := fleet{Cluster: c, all: arming.Source{Setting: "disarmed"}, nodes: map[string]arming.Source{}}
		f.renewed(0, time.Now())
	}()
	if err := x.run(t.Context(), connection); err != nil || out.String() != "node-000000: disarmed (the ConfigMap plimsoll-arming is set to disarmed)\n1 of 1 nodes: disarmed\n" || !strings.HasPrefix(errs.String(), "There is no preview: list nodes: ") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
}

// A question ends with the command, as by Ctrl-C: a read of a terminal does not.
func TestConfirm_EndsWithContext(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	ctx, cancel := context.WithCancel(t.Context())
	streams.In = readFunc(func() { cancel(); <-t.Context().Done() })
	x := &armingCommand{client: &client{streams: streams}}
	if err := x.confirm(ctx, "?"); err == nil {
		t.Error("confirmed without an answer")
	}
}

// readFunc is a terminal without an answer.
type readFunc func()

func (f readFunc) Read([]byte) (int, error) {
	f()
	return 0, context.Canceled
}
