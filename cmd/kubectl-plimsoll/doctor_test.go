package main

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// reporting adds an agent with findings.
func reporting(c *fakeapiserver.Cluster, node int, findings string) {
	renewed, seconds := metav1.NewMicroTime(time.Now()), int32(40)
	c.AddLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: heartbeat.Namespace, Name: fakeapiserver.NodeName(node), Annotations: map[string]string{
			heartbeat.AnnotationVersion: "0.3.0", heartbeat.AnnotationArmed: "true", heartbeat.AnnotationFindings: findings}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	})
}

func TestDoctor_GroupsFindingsOfNodes(t *testing.T) {
	c, kubeconfig := serve(t, heartbeat.Namespace, fakeapiserver.Size{Nodes: 12, Images: 1})
	t.Setenv("KUBECONFIG", kubeconfig)
	for i := range 12 {
		reporting(c, i, "")
	}
	status, out, errs := execute("doctor")
	if status != 0 || errs != "" || !strings.Contains(out, "warning policy-missing\n") || !strings.Contains(out, "\n0 errors, 2 warnings, 1 infos; nodes: 12\n") {
		t.Errorf("without errors: status %d, %s%s", status, errs, out)
	}
	for _, i := range []int{2, 10} {
		reporting(c, i, "clock-skew-large,\x1b[2J")
	}
	for args, want := range map[string]string{
		"":         "error clock-skew-large, 2 nodes: node-000002, node-000010\n",
		"-o json":  `"kind": "FindingList"`,
		"-o yaml":  "code: clock-skew-large\n",
		"-o kyaml": "clock-skew-large",
		`-o jsonpath={.items[?(@.code=="clock-skew-large")].nodes[*].name}`: "node-000002 node-000010",
		"-o jsonpath={.errors}": "2",
	} {
		status, out, errs := execute(append([]string{"doctor"}, strings.Fields(args)...)...)
		if status != exitFindings || errs != "errors found: see above\n" || !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: status %d, %s%s, want %q", args, status, errs, out, want)
		}
	}
	if calls := c.Calls(); calls["LIST nodes"] != 7 || calls["LIST leases"] != 7 || calls["PATCH nodes"]+calls["POST configmaps"] != 0 {
		t.Errorf("calls of seven commands: %v", calls)
	}
}

func TestDoctor_ExitStatuses(t *testing.T) {
	c, kubeconfig := serve(t, heartbeat.Namespace, fakeapiserver.Size{Nodes: 1, Images: 1})
	t.Setenv("KUBECONFIG", kubeconfig)
	reporting(c, 0, "")
	for line, want := range map[string]struct {
		status int
		errs   string
	}{
		"doctor":                                 {0, ""},
		"doctor --heartbeat-namespace=elsewhere": {exitFindings, "errors found"}, // no-agents
		"doctor --server=https://127.0.0.1:1":    {exitFailed, "some facts could not be read"},
		"doctor node-000000":                     {exitInvalid, "takes no arguments"},
		"doctor -o wide":                         {exitInvalid, `--output: "wide"`},
		"doctor --context=other":                 {exitFailed, "use the kubeconfig"},
	} {
		if status, _, errs := execute(strings.Fields(line)...); status != want.status || !strings.Contains(errs, want.errs) || (errs == "") != (want.errs == "") {
			t.Errorf("%s: status %d, %s, want %d, %q", line, status, errs, want.status, want.errs)
		}
	}
}
