package agentexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	utilexec "k8s.io/client-go/util/exec"

	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// exec is a fake connection: it runs a function in place of the command.
type exec func(ctx context.Context, command []string, stdout, stderr io.Writer) error

func (e exec) Exec(ctx context.Context, namespace, pod, container string, command []string, stdout, stderr io.Writer) error {
	if namespace != "ns" || container != "agent" || command[0] != "/plimsoll" {
		return fmt.Errorf("unexpected: %s/%s %s %q", namespace, pod, container, command)
	}
	return e(ctx, append([]string{pod}, command[1:]...), stdout, stderr)
}

// exitError returns the error of a command that failed, as client-go does.
func exitError(status int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", status), Code: status}
}

// pod returns a pod of an agent.
func pod(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: "node-7"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	if change != nil {
		change(&p)
	}
	return p
}

// agent returns the agent of the node-7 in a cluster with these pods.
func agent(t *testing.T, e exec, pods ...corev1.Pod) *agentexec.Agent {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); r.URL.Path != "/api/v1/namespaces/ns/pods" || q.Get("labelSelector") != agentexec.Selector || q.Get("fieldSelector") != "spec.nodeName=node-7" {
			t.Errorf("request %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods})
	}))
	t.Cleanup(server.Close)
	client, err := api.New(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return &agentexec.Agent{Client: client, Executor: e, Cluster: "the context test", Namespace: "ns", Node: "node-7"}
}

// lines returns the lines of plimsoll top.
func lines(t *testing.T, a *agentexec.Agent) (all []string, err error) {
	err = a.Lines(t.Context(), []string{"top", "-o", "json"}, func(line []byte) error {
		all = append(all, string(line))
		return nil
	})
	return all, err
}

func TestAgent_FindsItsPod(t *testing.T) {
	state := func(s corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Ready, p.Status.ContainerStatuses[0].State = false, s
		}
	}
	now := metav1.Now()
	unready := state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	waiting := state(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff\x1b[2J"}})
	for _, tc := range []struct {
		about string
		pods  []corev1.Pod
		want  string // the pod, or the error
	}{
		{"one", []corev1.Pod{pod("a", nil)}, "a"},
		{"one that is not ready", []corev1.Pod{pod("a", unready)}, "a"},
		{"an update", []corev1.Pod{pod("old", func(p *corev1.Pod) { p.DeletionTimestamp = &now }), pod("new", nil)}, "new"},
		{"the newest of two", []corev1.Pod{pod("old", nil), pod("new", func(p *corev1.Pod) { p.CreationTimestamp = now })}, "new"},
		{"beside one that does not start", []corev1.Pod{pod("b", waiting), pod("a", unready)}, "a"},
		{"none", nil, "find the agent of node node-7: it has no agent: no pod there in the namespace ns of the context test has the labels " + agentexec.Selector},
		{"one of another node, by a server that ignores selectors", []corev1.Pod{pod("a", func(p *corev1.Pod) { p.Spec.NodeName = "node-8" })}, "it has no agent"},
		{"one that does not start", []corev1.Pod{pod("a", waiting)}, "its container in the pod ns/a does not run: waiting, CrashLoopBackOff?[2J. See kubectl -n ns describe pod a"},
		{"one that has ended", []corev1.Pod{pod("a", state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}))}, "does not run: it ended with exit status 3, Error"},
		{"one without containers", []corev1.Pod{pod("a", func(p *corev1.Pod) { p.Status.ContainerStatuses, p.Status.Phase = nil, corev1.PodPending })}, "does not run: the pod is Pending"},
	} {
		used := ""
		a := agent(t, func(_ context.Context, command []string, _, _ io.Writer) error { used = command[0]; return nil }, tc.pods...)
		if _, err := lines(t, a); err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && used != tc.want {
			t.Errorf("%s: pod %q, %v", tc.about, used, err)
		} else if errors.Is(err, agentexec.ErrNone) != strings.Contains(tc.want, "no agent") {
			t.Errorf("%s: %v is ErrNone: %t", tc.about, err, errors.Is(err, agentexec.ErrNone))
		}
	}
}

// Lines arrive in parts of any size. One without its end is none.
func TestLines_AsWritten(t *testing.T) {
	text := "{\"a\":1}\n\n  \n" + strings.Repeat("x", 100_000) + "\nlast\nincomplete"
	for _, size := range []int{1, 7, 4096, len(text)} {
		a := agent(t, func(_ context.Context, command []string, stdout, _ io.Writer) error {
			if !slices.Equal(command, []string{"a", "top", "-o", "json"}) {
				t.Errorf("command %q", command)
			}
			for part := range slices.Chunk([]byte(text), size) {
				if _, err := stdout.Write(part); err != nil {
					return err
				}
			}
			return nil
		}, pod("a", nil))
		got, err := lines(t, a)
		if want := []string{`{"a":1}`, strings.Repeat("x", 100_000), "last"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("parts of %d bytes: %d lines, %v", size, len(got), err)
		}
	}
}

func TestRun_ExplainsErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/exec"}, "a", errors.New("no"))
	for _, tc := range []struct {
		err    error
		stderr string
		want   []string
	}{
		{forbidden, "", []string{"run plimsoll top on node node-7: ", "your account needs the right to create and get pods/exec in the namespace ns"}},
		{exitError(2), `unknown command "top" for "plimsoll"`, []string{"the agent is of a version without this command", "kubectl plimsoll version"}},
		{exitError(2), "unknown flag: --watch", []string{"the agent is of a version without this command"}},
		{exitError(1), "list the segments of a recording: open /var/lib/plimsoll/recording: no such file or directory: give", []string{"the agent has no recording in that directory", "--recording-dir", "If it is empty, the agent does not record"}},
		{exitError(1), "broken\x1b[2J\u202e\nline", []string{"exit status 1: broken?[2J? line"}},
		{exitError(1), "", []string{"exit status 1: without a message"}},
		{exitError(137), "", []string{"exit status 137"}},
		{exitError(127), "", []string{"the image of the agent has no /plimsoll (exit status 127)"}},
		{errors.New("container not found"), "ignored", []string{"run plimsoll top on node node-7: container not found"}},
		{exitError(1), strings.Repeat("y", 1<<20), []string{"exit status 1: yyy"}},
	} {
		a := agent(t, func(_ context.Context, _ []string, _, stderr io.Writer) error {
			for part := range slices.Chunk([]byte(tc.stderr), 1000) {
				_, _ = stderr.Write(part)
			}
			return tc.err
		}, pod("a", nil))
		_, err := lines(t, a)
		if err == nil || len(err.Error()) > 6000 || strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("%v: %.200v", tc.err, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: no %q in %.300v", tc.err, want, err)
			}
		}
	}
}

// A hostile or hanging agent ends with an error, in bounded time and memory. The connection may ignore errors of the output,
// as that of client-go does.
func TestLines_BoundHostileAgents(t *testing.T) {
	until := func(write func(stdout, stderr io.Writer)) exec {
		return func(ctx context.Context, _ []string, stdout, stderr io.Writer) error {
			for ctx.Err() == nil {
				write(stdout, stderr)
			}
			return ctx.Err()
		}
	}
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	const brief, ample = 50 * time.Millisecond, time.Minute // ample where the silence is not the bound
	for _, tc := range []struct {
		about   string
		silence time.Duration
		run     exec
		want    string
	}{
		{"a line without an end", ample, until(func(out, _ io.Writer) { _, _ = out.Write(megabyte) }), "a line of the answer has more than 1048576 bytes"},
		{"nothing", brief, func(ctx context.Context, _ []string, _, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }, "no answer for 50ms: the node or its agent may hang"},
		{"errors without an end", brief, until(func(_, errs io.Writer) { _, _ = errs.Write(megabyte) }), "no answer for 50ms"},
		{"a byte at a time", brief, until(func(out, _ io.Writer) { _, _ = out.Write([]byte("y")) }), ""}, // either bound may be first
		{"empty lines", brief, func(ctx context.Context, _ []string, out, _ io.Writer) error {
			for n := 0; n < 3000 && ctx.Err() == nil; n++ { // much longer than the silence
				_, _ = out.Write([]byte("\n"))
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
			return ctx.Err()
		}, "no answer for 50ms"},
		{"empty output", brief, until(func(out, _ io.Writer) { _, _ = out.Write(nil) }), "no answer for 50ms"},
	} {
		a := agent(t, tc.run, pod("a", nil))
		a.Silence = tc.silence
		if _, err := lines(t, a); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.about, err)
		}
	}
}

// What the caller refuses ends the command, and so does the caller's context.
func TestLines_EndWithCaller(t *testing.T) {
	refused, calls := errors.New("refused"), 0
	var late io.Writer
	a := agent(t, func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		late = stdout
		_, _ = stdout.Write([]byte("1\n2\n3\n"))
		<-ctx.Done()
		return ctx.Err()
	}, pod("a", nil))
	err := a.Lines(t.Context(), []string{"top"}, func([]byte) error { calls++; return refused })
	if !errors.Is(err, refused) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if _, err := late.Write([]byte("4\n")); err == nil || calls != 1 {
		t.Errorf("after the end: %d calls, %v", calls, err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err = a.Lines(ctx, []string{"top"}, func([]byte) error { cancel(cause); return nil }); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause of the context", err)
	}
}

// An export is complete only if its size is confirmed, whatever the connection reports.
func TestExport_ConfirmsItsSize(t *testing.T) {
	for _, tc := range []struct {
		about, out, stderr string
		err                error
		want               string
	}{
		{"complete", "recording", "not readable: 3 bytes\nexported 9 bytes\n", nil, ""},
		{"empty", "", "exported 0 bytes\n", nil, ""},
		{"broken off without an error", "record", "", nil, "the connection ended before the answer was complete: run it again"},
		{"too short", "record", "exported 9 bytes\n", nil, "the connection ended before the answer was complete"},
		{"a number that is none", "record", "exported 99999999999999999999 bytes\n", nil, "before the answer was complete"},
		{"failed", "record", "export a recording: no check is recorded in this time", exitError(1), "exit status 1: export a recording: no check is recorded in this time"},
	} {
		a := agent(t, func(_ context.Context, command []string, stdout, stderr io.Writer) error {
			if got := strings.Join(command, " "); got != "a recording export --begin=1h --confirm" {
				t.Errorf("command %s", got)
			}
			_, _ = io.WriteString(stdout, tc.out)
			_, _ = io.WriteString(stderr, tc.stderr)
			return tc.err
		}, pod("a", nil))
		var out bytes.Buffer
		n, err := a.Export(t.Context(), []string{"recording", "export", "--begin=1h"}, &out)
		if int(n) != len(tc.out) || out.String() != tc.out || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %d bytes, %v", tc.about, n, err)
		}
	}
}

// A slow export ends, and so does one that cannot be written.
func TestExport_EndsEarly(t *testing.T) {
	a := agent(t, func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		for ctx.Err() == nil {
			_, _ = stdout.Write([]byte("x"))
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
		return ctx.Err()
	}, pod("a", nil))
	a.Silence = 50 * time.Millisecond
	if _, err := a.Export(t.Context(), []string{"recording", "export"}, io.Discard); err == nil || !strings.Contains(err.Error(), "no answer for 50ms") {
		t.Errorf("%v", err)
	}
	a.Silence = time.Minute
	full := errors.New("no space left")
	if _, err := a.Export(t.Context(), []string{"recording", "export"}, failing{full}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestAgent_ExplainsMissingRight(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
	}))
	defer server.Close()
	client, err := api.New(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	a := &agentexec.Agent{Client: client, Namespace: "ns", Node: "node-7"}
	if _, err := lines(t, a); err == nil || !strings.Contains(err.Error(), "your account needs the right to list pods in the namespace ns") {
		t.Errorf("%v", err)
	}
}
