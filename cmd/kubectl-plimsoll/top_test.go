package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	utilexec "k8s.io/client-go/util/exec"

	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/live"
)

// inPod is a fake connection: it runs a function in place of the command in the agent's pod.
type inPod func(ctx context.Context, args []string, stdout, stderr io.Writer) error

func (run inPod) Exec(ctx context.Context, _, _, _ string, command []string, stdout, stderr io.Writer) error {
	return run(ctx, command[1:], stdout, stderr)
}

// exited returns the error of a command that failed, as client-go does.
func exited(status int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", status), Code: status}
}

// withAgent serves a cluster in which node-7 has an armed agent, and points KUBECONFIG at it.
func withAgent(t *testing.T) { t.Helper(); withLease(t, time.Now()) }

// withLease is withAgent with an agent that renewed its lease at a time.
func withLease(t *testing.T, at time.Time) {
	t.Helper()
	renewed, seconds := metav1.NewMicroTime(at), int32(40)
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-7", Annotations: map[string]string{heartbeat.AnnotationVersion: "0.3.0", heartbeat.AnnotationArmed: "true"}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &renewed}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/apis/coordination.k8s.io/v1/namespaces/plimsoll-system/leases":
			answer = coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []coordinationv1.Lease{lease}}
		case "/api/v1/namespaces/plimsoll-system/pods":
			answer = corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{agentPod()}}
		default:
			t.Errorf("request %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: %q}}]\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// onlyPods is a client of pods alone, without a connection.
type onlyPods struct {
	api.Interface
	pods []corev1.Pod
}

func (o onlyPods) Pods(string) api.Resource[*corev1.Pod, *corev1.PodList] {
	return listedPods{pods: o.pods}
}

type listedPods struct {
	api.Resource[*corev1.Pod, *corev1.PodList]
	pods []corev1.Pod
}

func (l listedPods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: slices.Clone(l.pods)}, nil
}

// agentPod is the pod of the agent of node-7.
func agentPod() corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-x"}, Spec: corev1.PodSpec{NodeName: "node-7"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
}

// executeWith runs the client with a connection to pods.
func executeWith(e agentexec.Executor, args ...string) (status int, out, errs string) {
	streams, _, o, er := genericiooptions.NewTestIOStreams()
	status = runRoot(newRoot(&client{streams: streams, executor: e, patience: patient}), args, streams)
	return status, o.String(), er.String()
}

// stateLine is a line of plimsoll top.
func stateLine(t testing.TB, change func(*live.State)) string {
	t.Helper()
	s := live.NewTracker().State(time.Now())
	s.Node, s.Version, s.Notes = "node-7", "0.3.0", nil
	if change != nil {
		change(s)
	}
	line, err := s.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestTop_ShowsStateOnce(t *testing.T) {
	withAgent(t)
	var ran []string
	agent := inPod(func(_ context.Context, args []string, stdout, _ io.Writer) error {
		ran = args
		_, err := io.WriteString(stdout, stateLine(t, func(s *live.State) {
			s.Next = &live.Next{Signal: "memory.available", Configured: "memory.available<100Mi", Pod: "shop/web\x1b[2J", Ranking: []live.Place{}}
		}))
		return err
	})
	for _, tc := range []struct{ args, want, ran string }{
		{"", "node-7  agent 0.3.0  armed  no pressure\n", "top --output=json"},
		{"-o json --recording-dir=/data", `"kind": "NodeState"`, "top --output=json --recording-dir=/data"},
		{"-o yaml", "arming: armed\n", "top --output=json"},
		{"-o jsonpath={.next.pod}", "shop/web?[2J", "top --output=json"},
	} {
		status, out, errs := executeWith(agent, append([]string{"top", "node-7"}, strings.Fields(tc.args)...)...)
		if status != 0 || errs != "" || !strings.Contains(out, tc.want) || strings.Contains(out, "\x1b") || strings.Join(ran, " ") != tc.ran {
			t.Errorf("top %s: status %d, ran %q\n%s%s", tc.args, status, ran, errs, out)
		}
	}
}

// An agent that does not renew its lease is silent, whatever its recording has.
func TestTop_SilentByLease(t *testing.T) {
	agent := inPod(func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		_, err := io.WriteString(stdout, stateLine(t, func(s *live.State) { s.Arming = "armed" }))
		return err
	})
	for _, tc := range []struct {
		renewed time.Duration
		want    string
	}{{0, "armed"}, {time.Hour, "silent"}} {
		withLease(t, time.Now().Add(-tc.renewed))
		if status, out, errs := executeWith(agent, "top", "node-7", "-o", "jsonpath={.arming}"); status != 0 || strings.TrimSpace(out) != tc.want {
			t.Errorf("renewed %s ago: status %d, %s%s, want %s", tc.renewed, status, out, errs, tc.want)
		}
	}
}

func TestTop_ExitStatuses(t *testing.T) {
	withAgent(t)
	ends := func(stdout, stderr string, err error) inPod {
		return func(_ context.Context, _ []string, o, e io.Writer) error {
			_, _ = io.WriteString(o, stdout)
			_, _ = io.WriteString(e, stderr)
			return err
		}
	}
	for _, tc := range []struct {
		args   string
		agent  inPod
		status int
		want   string
	}{
		{"top", nil, exitInvalid, "kubectl plimsoll top takes the name of one node; 0 were given"},
		{"top a b", nil, exitInvalid, "2 were given"},
		{"top Node_7", nil, exitInvalid, `"Node_7" is no name of a node`},
		{"top node-7 -o wide", nil, exitInvalid, `--output: "wide": must be one of json`},
		{"top node-8", nil, exitFailed, "find the agent of node node-8: it has no agent"},
		{"top node-7", ends("", `unknown command "top" for "plimsoll"`, exited(2)), exitFailed, "the agent is of a version without this command"},
		{"top node-7", ends("", "", nil), exitFailed, "the agent has written none"},
		{"top node-7", ends("\x1b[2Jhello\n", "", nil), exitFailed, "the answer of the agent: decode the state of a node"},
		{"top node-7 --watch", ends("", "x: no such file or directory", exited(1)), exitFailed, "the agent has no recording in that directory"},
		{"top node-7 --context=none", nil, exitFailed, `context "none" does not exist`},
	} {
		status, out, errs := executeWith(tc.agent, strings.Fields(tc.args)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) || strings.Contains(errs, "\x1b") {
			t.Errorf("%s: status %d, %s%s, want %d, %q", tc.args, status, out, errs, tc.status, tc.want)
		}
	}
}

// With --watch, a command that reached its duration is run again at once, and a connection that broke after a delay, which
// doubles. An early end is such a break, even after a state. What cannot be written ends the command.
func TestTop_WatchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, runs := time.Now(), []time.Duration{}
		var lost []string
		line := stateLine(t, nil)
		agent := &agentexec.Agent{Client: onlyPods{pods: []corev1.Pod{agentPod()}}, Namespace: "ns", Node: "node-7", Silence: 2 * followDuration, Executor: inPod(func(_ context.Context, args []string, stdout, _ io.Writer) error {
			if got := strings.Join(args, " "); got != "top --output=json --watch --duration=5m0s" {
				t.Errorf("ran %s", got)
			}
			runs = append(runs, time.Since(begun).Round(time.Second))
			switch len(runs) {
			case 1, 5: // its duration
				<-time.After(followDuration)
				_, err := io.WriteString(stdout, line+line)
				return err
			case 2:
				return nil
			case 6:
				_, err := io.WriteString(stdout, line)
				return err
			}
			return errors.New("no route to host")
		})}
		ctx, cancel := context.WithCancel(t.Context())
		states := 0
		f := &follower{agent: agent}
		err := f.follow(ctx, func(s *live.State) error { states++; return nil }, func(err error, wait time.Duration) {
			if lost = append(lost, err.Error()); wait <= 0 || wait > reconnect.Max {
				t.Errorf("a delay of %s", wait)
			}
			if len(runs) == 8 {
				cancel()
			}
		})
		if err != nil || states != 5 || len(lost) != 6 || !strings.Contains(lost[0], "the connection ended without a state") || !strings.Contains(lost[1], "no route to host") || !strings.Contains(lost[3], "the connection ended early") {
			t.Errorf("%d states, %q, %v", states, lost, err)
		}
		// Three failures wait 5 to 7 s. The fifth run lasts, so that its end is no failure and the next one waits least.
		backedOff := runs[4] - followDuration
		if !slices.IsSorted(runs) || runs[1] != followDuration || backedOff < 5*time.Second || backedOff > 7*time.Second || runs[5] != runs[4]+followDuration || runs[6]-runs[5] > 2*time.Second {
			t.Errorf("run at %v", runs)
		}
		refused := errors.New("disk full")
		if err := f.follow(t.Context(), func(*live.State) error { return refused }, nil); err == nil {
			t.Error("a state that cannot be written ends nothing")
		}
	})
}
