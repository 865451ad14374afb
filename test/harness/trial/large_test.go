package trial_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/bulk"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// agentLimit is the memory limit of the agent in the chart.
const agentLimit = 256 * mib

// smallParts fills a pod with the parts of the largest decoded form relative to their encoded
// size.
func smallParts(p *corev1.Pod) {
	for i := range 10_000 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%05d", i), Image: "i", TerminationMessagePath: "/dev/termination-log"})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%05d", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	for i := range 50_000 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("E%05d", i)})
	}
}

// manyVolumes fills a pod with the maximum number of parts with the largest decoded form.
func manyVolumes(p *corev1.Pod) {
	for i := range 90_000 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%09d", i)})
	}
}

func TestAgent_LargePodsFitItsLimit(t *testing.T) {
	if os.Getenv("PLIMSOLL_VM") == "1" {
		t.Skip("an emulated processor decodes 650 MB for minutes, and memory is charged there as on the machine itself: make test-kernel")
	}
	for i, tc := range []struct {
		name string
		bulk.Server
	}{
		{"a list in protobuf", bulk.Server{Protobuf: true, Grow: bulk.Fill}},
		{"a streamed list in protobuf", bulk.Server{Protobuf: true, Streams: true, Grow: bulk.Fill}},
		{"a streamed list in JSON", bulk.Server{Streams: true, Grow: bulk.Fill}},
		{"a list of volumes", bulk.Server{Protobuf: true, Grow: manyVolumes}},
		{"a streamed list of volumes", bulk.Server{Protobuf: true, Streams: true, Grow: manyVolumes}},
		{"a streamed list of small parts", bulk.Server{Protobuf: true, Streams: true, Grow: smallParts}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // beside each other only: the agents mostly wait
			tc.Node, tc.Pods, tc.Failed = "large", 500, 400
			size, err := tc.Prepare()
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(&tc.Server)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			n := node(t, "large-"+strconv.Itoa(i))
			l := limited(t, n, server.URL)
			p := l.start("agent", "--logging-format=json", "--pod-manifests=", "--node-cgroup="+n.Path(), "--enforce-node-allocatable=none", "--healthz-bind-address=", "--heartbeat-namespace=")
			l.until(p, "the pods are known and the node is examined", func() bool {
				text, _ := os.ReadFile(l.state)
				var saved struct {
					State struct {
						Pods   []json.RawMessage
						Arming struct{ Findings struct{ Known bool } }
					}
				}
				return json.Unmarshal(text, &saved) == nil && len(saved.State.Pods) == 100 && saved.State.Arming.Findings.Known
			})
			t.Logf("500 pods of %d bytes: the agent's peak is %s", size, l.peak(p))
			// A doctor that an operator runs in the agent's container shares its limit.
			d := l.start("doctor")
			l.until(d, "the doctor is done", func() bool { return !d.Alive() })
			if status := d.State().ExitCode(); status != 0 && status != 1 && status != 3 {
				t.Errorf("the doctor ended with %v: %s", d.State(), l.log())
			}
			if !p.Alive() {
				t.Errorf("the agent has ended: %v\n%s", p.State(), l.log())
			}
			l.unharmed()
		})
	}
}

// limit is a cgroup with the agent's memory limit, and the processes in it.
type limit struct {
	t     *testing.T
	node  *trial.Node
	pod   *sandbox.Pod
	state string
	args  []string
	out   *os.File
}

func limited(t *testing.T, n *trial.Node, url string) *limit {
	t.Helper()
	l := &limit{t: t, node: n, state: filepath.Join(n.Dir, "state.json")}
	var err error
	if l.pod, err = n.AddService("agent"); err != nil {
		t.Fatal(err)
	}
	if err := l.pod.LimitMemory(agentLimit); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(n.Dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n", url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.out, err = os.Create(filepath.Join(n.Dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.out.Close() })
	l.args = []string{"--kubeconfig=" + config, "--hostname-override=large", "--container-runtime-endpoint=none", "--kubelet-config=/none",
		"--state-file=" + l.state, "--disarm-file=" + n.DisarmFile()}
	return l
}

func (l *limit) start(command string, args ...string) *sandbox.Process {
	l.t.Helper()
	cmd := exec.Command(binary, append(append([]string{command}, l.args...), args...)...)
	cmd.Stdout, cmd.Stderr = l.out, l.out
	// Locked pages of the heap are never released, and the binary's own pages count as well.
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=180MiB")
	p, err := l.node.Node.Start(l.pod, "main", cmd)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *limit) log() string {
	text, _ := os.ReadFile(l.out.Name())
	return string(text[max(0, len(text)-4000):])
}

// until waits for a condition while the process lives and no OOM kill occurs.
func (l *limit) until(p *sandbox.Process, what string, ok func() bool) {
	l.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
			l.unharmed()
		case <-p.Done():
			if !ok() {
				l.t.Fatalf("waiting until %s: it has ended: %v\n%s", what, p.State(), l.log())
			}
		case <-end:
			l.t.Fatalf("waited 5 minutes until %s\n%s", what, l.log())
		}
	}
}

func (l *limit) unharmed() {
	l.t.Helper()
	if kills, err := l.node.OOMKills(); err != nil || kills > 0 {
		l.t.Fatalf("the kernel has killed %d processes within %d MiB, %v\n%s", kills, agentLimit/mib, err, l.log())
	}
}

// peak returns the maximum resident memory of the process.
func (l *limit) peak(p *sandbox.Process) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "status"))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
