package main

import (
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/kill"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/sandbox"
)

// The API server's word that a pod has been evicted may come after the next look:
// who runs nothing but his sandbox is not evicted once more for memory, nor kept
// waiting for. Of disks he may hold as much as before.
func TestWhoWasEndedIsNobodysVictim(t *testing.T) {
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.Make(t, "victim", 256<<20)
	pod, err := box.AddPod("6f1d0d7c-2b4e-4a51-9c8a-000000000002", sandbox.Burstable, "main", "pause")
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range []string{"main", "pause"} {
		if _, err := box.Start(pod, container, exec.Command("sleep", "infinity")); err != nil {
			t.Fatal(err)
		}
	}
	k, err := kill.New(h)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	n := &node{cgroups: stats.OpenPods(h, box.Path()), killer: k, safety: flagged(false), sandboxes: sandboxes{}, log: slog.New(slog.DiscardHandler)}
	defer n.cgroups.Close()
	pods := []signal.Pod{{UID: pod.UID, Namespace: "default", Name: "p", Containers: []signal.Container{{Name: "main", ID: "main"}}}}
	n.cgroups.Prepare(pods)
	e := &eviction.Eviction{Pod: &pods[0], Cause: signal.MemoryAvailable.String(), Hard: true}
	found, err := n.Victim(e)
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := found.(*victim).Kill(t.Context()); err != nil || ended.Signalled != 1 {
		t.Fatalf("%+v, %v: want the one process beside the sandbox's", ended, err)
	}
	for cause, refused := range map[string]bool{signal.MemoryAvailable.String(): true, signal.PIDAvailable.String(): true,
		signal.NodefsAvailable.String(): false, eviction.PodLimit: false} {
		e.Cause = cause
		if _, err := n.Victim(e); (err != nil) != refused || refused && !strings.Contains(err.Error(), "would free nothing") {
			t.Errorf("%s: %v", cause, err)
		}
	}
}

// A container that has ended has no directory, so that the sandbox can not be told
// from one that was started since: what was known of it holds.
func TestASandboxIsRemembered(t *testing.T) {
	pod := &signal.Pod{UID: "u", Containers: []signal.Container{{Name: "a", ID: "1"}}}
	known, alone := sandboxes{}, []cgroup.Container{{Name: "s", Path: "/kubepods/pod/s"}}
	if got := known.of(pod, alone); got != "" {
		t.Errorf("%q, want nothing: it may be a container that was started again", got)
	}
	for _, directories := range [][]cgroup.Container{append(alone, cgroup.Container{Name: "1", Path: "/kubepods/pod/1"}), alone} {
		if got := known.of(pod, directories); got != "s" {
			t.Errorf("of %v: %q", directories, got)
		}
	}
}
