package app

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// afterwards is a node with one pod that runs nothing but its sandbox, after its only
// container was ended by that victim.
func afterwards(t *testing.T, how func(*victim) (agent.Killed, error)) (n *node, box *sandbox.Node, pod *sandbox.Pod, e *eviction.Eviction) {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	box = sandbox.Make(t, "victim", 256<<20)
	if pod, err = box.AddPod("6f1d0d7c-2b4e-4a51-9c8a-000000000002", sandbox.Burstable, "main", "pause"); err != nil {
		t.Fatal(err)
	}
	k, err := kill.New(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	listed := podList{{UID: pod.UID, Namespace: "default", Name: "p", Containers: []signals.Container{{Name: "main", ID: "main"}}}}
	n = &node{cgroups: stats.OpenPods(h, box.Path()), source: listed, directories: stats.OpenDirectories(stats.DirectoryOptions{}),
		killer: k, evictor: &evict.Ladder{}, arming: flagged(false), sandboxes: &sandboxes{}, hierarchy: h, log: slog.New(slog.DiscardHandler)}
	n.provider = n.cgroups
	n.sandboxes.set([]cri.Sandbox{{ID: "pause", UID: pod.UID}})
	t.Cleanup(n.cgroups.Close)
	for _, container := range []string{"main", "pause"} {
		sleep(t, box, pod, container)
	}
	n.cgroups.Prepare(listed)
	e = &eviction.Eviction{Pod: &listed[0], Cause: signals.MemoryAvailable.String(), Hard: true}
	found, err := n.Victim(e)
	if err != nil {
		t.Fatal(err)
	}
	if killed, err := how(found.(*victim)); err != nil || killed.Processes != 1 {
		t.Fatalf("%+v, %v: want the one process beside the sandbox's", killed, err)
	}
	return n, box, pod, e
}

func sleep(t *testing.T, box *sandbox.Node, pod *sandbox.Pod, container string) {
	t.Helper()
	if _, err := box.Start(pod, container, exec.Command("sleep", "infinity")); err != nil {
		t.Fatal(err)
	}
}

type podList []signals.Pod

func (p podList) pods() []signals.Pod { return p }
func (podList) fault() error          { return nil }

// Whoever ended it: a pod that runs nothing but its sandbox is not evicted for
// memory. Of disks it may hold as much as before.
func TestWhoWasEndedIsNobodysVictim(t *testing.T) {
	n, _, _, e := afterwards(t, func(v *victim) (agent.Killed, error) {
		r, err := v.Kill(t.Context())
		return agent.Killed{Processes: r.Signalled}, err
	})
	for cause, refused := range map[string]bool{signals.MemoryAvailable.String(): true, signals.PIDAvailable.String(): true,
		signals.NodefsAvailable.String(): false, eviction.PodLimit: false} {
		e.Cause = cause
		if _, err := n.Victim(e); (err != nil) != refused || refused && !strings.Contains(err.Error(), "would free nothing") {
			t.Errorf("%s: %v", cause, err)
		}
	}
	if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 1 || len(measured) != 1 {
		t.Errorf("for disks: %+v, %+v", stored, measured)
	}
}

// The API server's word that a pod was evicted may come after the next look: until
// then nobody evicts it once more, for whatever reason, unless it runs again.
func TestWhoWasEvictedIsNoCandidateUntilItRuns(t *testing.T) {
	for name, how := range map[string]func(*victim) (agent.Killed, error){
		"hard": func(v *victim) (agent.Killed, error) { return v.Immediate(t.Context(), t.Context(), time.Minute) },
		"soft": func(v *victim) (agent.Killed, error) {
			return v.Graceful(t.Context(), time.Minute, agent.Changes{})
		},
		"hurried": func(v *victim) (agent.Killed, error) { return v.Finish(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			n, box, pod, _ := afterwards(t, how)
			if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 0 || len(measured) != 0 {
				t.Errorf("%+v, %+v", stored, measured)
			}
			sleep(t, box, pod, "main")
			if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 1 || len(measured) != 1 {
				t.Errorf("started again: %+v, %+v", stored, measured)
			}
		})
	}
}
