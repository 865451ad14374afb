package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/lifecycle/config"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// env is a controller that runs in the test with the rights of deploy/rbac, and a cluster with
// nodes that are objects only.
type env struct {
	api  kubernetes.Interface
	log  logcapture.Book
	http http.Client
}

// newEnv runs a controller with these flags until the test ends.
func newEnv(t *testing.T, flags ...string) *env {
	t.Helper()
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	e := &env{http: http.Client{Timeout: time.Minute}}
	var err error
	if e.api, err = c.Clients(); err != nil {
		t.Fatal(err)
	}
	if err := c.Grant(t.Context(), filepath.Join("..", "..", "deploy", "rbac", "controller.yaml")); err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "plimsoll-system", "plimsoll-controller")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig(c.Bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	registered := config.AddFlags(set)
	if err := set.Parse(append(flags, "--kubeconfig="+kubeconfig, "--healthz-bind-address=127.0.0.1:0", "--logging-format=json")); err != nil {
		t.Fatal(err)
	}
	options, err := config.Load("", registered)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- Run(ctx, options, Options{Out: &e.log}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended with %v", err)
		}
		if t.Failed() {
			t.Log(e.log.String())
		}
	})
	return e
}

// node creates a ready node with a fresh lease. Its status is part of the first request, as a kubelet's
// is: the controller changes the object right afterwards.
func (e *env) node(t *testing.T, name string) {
	t.Helper()
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}
	_, err := e.api.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = e.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: new(metav1.NowMicro())},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// live renews the lease of a node every second until the test ends. As a kubelet does, it reports the node as ready
// again if the controller has marked it: this process may stall for longer than the grace period.
func (e *env) live(t *testing.T, name string) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := errors.Join(e.renew(ctx, name), e.correct(ctx, name)); err != nil && ctx.Err() == nil {
				t.Errorf("report that %s lives: %v", name, err)
			}
		}, time.Second)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func (e *env) renew(ctx context.Context, name string) error {
	text := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
	_, err := e.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
	return err
}

func (e *env) correct(ctx context.Context, name string) error {
	n, err := e.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil || readiness(n) == corev1.ConditionTrue {
		return err
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	text := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, now, now)
	_, err = e.api.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	return err
}

// pod creates a pod that tolerates an unreachable node for two seconds. The API server's
// default is five minutes.
func (e *env) pod(t *testing.T, name, node string) {
	t.Helper()
	unreachable := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(2))}
	_, err := e.api.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "none"}},
			TerminationGracePeriodSeconds: new(int64(1000)), Tolerations: []corev1.Toleration{unreachable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, is); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

var listens = regexp.MustCompile(`"address":"([^"]+)"`)

// get returns the controller's answer to a path. The server abandons a request that is late (internal/healthz), and
// answers without the fleet's state if the loop does not report it in time: see answers.
func (e *env) get(ctx context.Context, path string) (status int, text string, err error) {
	address := listens.FindStringSubmatch(e.log.String())
	if address == nil {
		return 0, "", errors.New("the controller does not listen yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address[1]+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := e.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// answers requests a path until the answer is right; wrong describes what is not, and is empty if all is.
func (e *env) answers(t *testing.T, path string, wrong func(status int, text string) string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() && last != "" {
			t.Logf("%s: %s", path, last)
		}
	}()
	until(t, "the answer to "+path, func(ctx context.Context) (bool, error) {
		status, text, err := e.get(ctx, path)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		last = wrong(status, text)
		return last == "", nil
	})
}

// contains returns a check of [env.answers]: of the status, and of parts of the text.
func contains(want int, parts ...string) func(int, string) string {
	return func(status int, text string) string {
		if status != want {
			return fmt.Sprintf("status %d, want %d: %s", status, want, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return fmt.Sprintf("no %q in %s", part, text)
			}
		}
		return ""
	}
}

// decisions returns the lines of the decision log with this verb.
func (e *env) decisions(verb string) (lines []map[string]any) {
	for scan := bufio.NewScanner(bytes.NewBufferString(e.log.String())); scan.Scan(); {
		var line map[string]any
		if json.Unmarshal(scan.Bytes(), &line) == nil && line["decision"] == verb {
			lines = append(lines, line)
		}
	}
	return lines
}

// quick are the periods of a controller for short leases of nodes. Its own lease outlasts a stall of this process.
var quick = []string{
	"--node-renew-interval=1s", "--node-monitor-period=1s", "--node-monitor-grace-period=4s", "--node-startup-grace-period=4s",
	"--conflict-window=0s", "--outage-grace=2s", "--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m", "--leader-elect-retry-period=1s",
}

// counts reports whether a page of metrics has one that is not 0. After a stall of this process no node is alive for the
// controller: it cancels its actions, and repeats them later.
func counts(page, metric string) bool {
	_, value, served := strings.Cut(page, "\n"+metric+" ")
	return served && !strings.HasPrefix(value, "0\n")
}

// missing returns a line that a page of metrics lacks, or one of metrics that does not count.
func missing(page string, lines []string, counters ...string) string {
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			return "no " + line
		}
	}
	for _, metric := range counters {
		if !counts(page, metric) {
			return metric + " counts nothing"
		}
	}
	return ""
}

// TestRun_ModeReplace lets the lease of one of two nodes expire. With the rights of deploy/rbac
// and no others the node becomes Unknown and is tainted, and its pod is evicted; /explain
// reports it.
func TestRun_ModeReplace(t *testing.T) {
	e := newEnv(t, append(quick, "--mode=replace")...)
	e.node(t, "dying")
	e.node(t, "living")
	e.live(t, "living")
	e.pod(t, "web", "dying")
	until(t, "the pod of the dead node is deleted", func(ctx context.Context) (bool, error) {
		p, err := e.api.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && p.DeletionTimestamp != nil, err
	})
	for name, want := range map[string]string{"living": "True []", "dying": "Unknown [NoExecute NoSchedule]"} {
		until(t, name+" is "+want, func(ctx context.Context) (bool, error) {
			n, err := e.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return err == nil && state(n) == want, err
		})
	}
	e.answers(t, "/readyz?verbose", contains(http.StatusOK, "cluster ok: leads"))
	e.answers(t, "/metrics", func(_ int, text string) string {
		return missing(text, []string{
			`node_collector_unhealthy_nodes_in_zone{zone=""} 1`, `node_collector_zone_health{zone=""} 50`,
			`taint_eviction_controller_pod_deletions_total 1`, `plimsoll_controller_replacing 1`, `plimsoll_controller_leader 1`,
		}, `node_collector_evictions_total{zone=""}`, `plimsoll_controller_decisions_total{decision="evict",dry_run="false"}`)
	})
	e.servesDocumentedMetrics(t)
	e.answers(t, "/explain?node=dying", contains(http.StatusOK, `"ready": "Unknown"`, `"health": "unreachable"`))
	for path, want := range map[string]int{"/explain": http.StatusBadRequest, "/explain?node=unknown": http.StatusNotFound, "/livez": http.StatusOK} {
		e.answers(t, path, contains(want))
	}
	if n := e.log.Count("forbidden"); n > 0 {
		t.Errorf("%d requests were forbidden: deploy/rbac/controller.yaml lacks a right", n)
	}
}

// A metric with its kind, in a scrape and in docs/reference/metrics.md.
var (
	servedMetric     = regexp.MustCompile(`(?m)^# TYPE ((?:plimsoll|node_collector|taint_eviction)_[a-z_]+) ([a-z]+)$`)
	documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\|")
)

// servesDocumentedMetrics compares a leader's metrics, after one of every action, with the reference.
func (e *env) servesDocumentedMetrics(t *testing.T) {
	t.Helper()
	reference, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, ofController, _ := strings.Cut(string(reference), "\n## The controller\n")
	namesOf := func(pattern *regexp.Regexp, text string) (all []string) {
		for _, found := range pattern.FindAllStringSubmatch(text, -1) {
			all = append(all, found[1]+" "+found[2])
		}
		slices.Sort(all)
		return all
	}
	e.answers(t, "/metrics", func(_ int, page string) string {
		if diff := cmp.Diff(namesOf(documentedMetric, ofController), namesOf(servedMetric, page)); diff != "" {
			return "documented and served metrics differ (-documented +served):\n" + diff
		}
		return ""
	})
}

// state returns the status of a node's condition Ready and the effects of its taints.
func state(n *corev1.Node) string {
	effects := []string{}
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeUnreachable {
			effects = append(effects, string(taint.Effect))
		}
	}
	if len(effects) == 2 && effects[0] > effects[1] {
		effects[0], effects[1] = effects[1], effects[0]
	}
	return fmt.Sprintf("%s %v", readiness(n), effects)
}

func readiness(n *corev1.Node) (status corev1.ConditionStatus) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = c.Status
		}
	}
	return status
}

// TestRun_ModeObserve checks that by default everything is reported and nothing is changed.
func TestRun_ModeObserve(t *testing.T) {
	e := newEnv(t, quick...)
	e.node(t, "dying")
	e.node(t, "living")
	e.live(t, "living")
	e.pod(t, "web", "dying")
	until(t, "an eviction is reported", func(context.Context) (bool, error) { return len(e.decisions("evict")) > 0, nil })
	if d := e.decisions("evict")[0]; d["dryRun"] != true || d["pod"] != "default/web" || d["node"] != "dying" {
		t.Errorf("unexpected decision: %v", d)
	}
	n, err := e.api.CoreV1().Nodes().Get(t.Context(), "dying", metav1.GetOptions{})
	if err != nil || state(n) != "True []" {
		t.Errorf("the node was changed: %s, %v", state(n), err)
	}
	if p, err := e.api.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || p.DeletionTimestamp != nil {
		t.Errorf("the pod was deleted: %v", err)
	}
	e.answers(t, "/metrics", func(_ int, text string) string {
		return missing(text, []string{`plimsoll_controller_replacing 0`, `taint_eviction_controller_pod_deletions_total 0`}, `plimsoll_controller_decisions_total{decision="evict",dry_run="true"}`)
	})
	e.answers(t, "/readyz?verbose", contains(http.StatusOK, "only logs its decisions: the mode is observe"))
}
