package stats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// onDisk is a directory with reclaimable file pages.
const onDisk = "/var/tmp"

func openStalls(t testing.TB, box *sandbox.Node) *Stalls {
	t.Helper()
	h, err := cgroup.Detect(box.Root())
	if err != nil {
		t.Fatal(err)
	}
	return OpenStalls(h, box.Path())
}

// until retries until the condition is true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("%s: timeout after 1 minute", what)
		}
	}
}

func runCommand(t *testing.T, h *sandbox.Hog, command string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := h.Do(ctx, command)
	return err
}

// TestStalls_ReportsPodAtOwnLimit checks that a pod thrashing at its own limit is reported and
// another pod is not, with either cgroup driver, at the first call and later.
func TestStalls_ReportsPodAtOwnLimit(t *testing.T) {
	for name, options := range map[string][]sandbox.Option{"cgroupfs": nil, "systemd": {sandbox.SystemdNames()}} {
		t.Run(name, func(t *testing.T) {
			box := sandboxNode(t, options...)
			own := addPod(t, box, "0b6d-own", sandbox.Burstable, "app")
			idle := addPod(t, box, "0b6d-calm", sandbox.Guaranteed, "app")
			if err := own.LimitMemory(48 * mib); err != nil {
				t.Fatal(err)
			}
			pods := []signals.Pod{{UID: "0b6d-calm", Namespace: "n", Name: "calm"}, {UID: "0b6d-own", Namespace: "n", Name: "own"}, {UID: "gone"}}
			box.Run(t, idle, "app", "fill 32MiB")
			h := box.Run(t, own, "app")
			s := openStalls(t, box)
			if got := s.Since(pods, noon); len(got) != 0 {
				t.Errorf("before the hog: %+v", got)
			}
			if err := h.Send("thrash 96MiB in " + onDisk + " for 10m"); err != nil { // until the test kills it
				t.Fatal(err)
			}
			until(t, "the pod is at its limit", func() bool { u, err := own.Usage(); return err == nil && u >= 48*mib-mib/2 })
			var first, later []signals.Stall
			until(t, "the first call reports the pod", func() bool { // reclaim frees memory temporarily, longer if the hog waits for a processor
				first = openStalls(t, box).Since(pods, noon)
				return len(first) > 0
			})
			at := noon
			until(t, "a later call reports the pod", func() bool {
				at = at.Add(10 * time.Second)
				later = s.Since(pods, at)
				return len(later) > 0
			})
			if err := syscall.Kill(h.Process.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-h.Process.Done()
			for when, got := range map[string][]signals.Stall{"first": first, "later": later} {
				if len(got) != 1 || got[0].Name() != "n/own" || !got[0].Own() || got[0].Limit != 48*mib || got[0].AtMax == 0 || got[0].OOMKills != 0 {
					t.Fatalf("%s: %+v", when, got)
				}
			}
			if first[0].AtMax != 1 || later[0].Over != 10*time.Second {
				t.Errorf("first %+v, later %+v", first[0], later[0])
			}
			if w := later[0].Waited; hasPressure() && (!w.Known || w.Value <= 0 || w.Value > 5*time.Minute) {
				t.Errorf("got waited %+v, want up to 5 minutes", w)
			}
			s.Since(pods, at.Add(maxCounterAge))
			if got := s.Since(pods, at.Add(2*maxCounterAge)); len(got) != 0 {
				t.Errorf("after the hog: %+v", got)
			}
		})
	}
}

// hasPressure reports whether the machine has pressure counters per cgroup, possibly in a tree
// beside version 1.
func hasPressure() bool {
	for _, tree := range []string{"", "unified"} {
		if found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", tree, "*", "memory.pressure")); len(found) > 0 {
			return true
		}
	}
	return false
}

// TestStalls_AttributesOOMKills checks that an OOM kill at a pod's own limit counts for the
// pod. One at the node's limit counts for the node, and no pod is reported at a limit of its
// own.
func TestStalls_AttributesOOMKills(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own=%t", own), func(t *testing.T) {
			box := sandbox.Make(t, "stats", 128*mib)
			victim := addPod(t, box, "victim", sandbox.Burstable, "app")
			if own {
				if err := victim.LimitMemory(32 * mib); err != nil {
					t.Fatal(err)
				}
			}
			pods := []signals.Pod{{UID: "victim", Namespace: "n", Name: "victim"}}
			h := box.Run(t, victim, "app")
			s := openStalls(t, box)
			s.Since(pods, noon)
			if err := runCommand(t, h, "fill 256MiB"); !errors.Is(err, hog.ErrEnded) {
				t.Fatalf("got %v, want a kill by the OOM killer", err)
			}
			until(t, "the kill is counted", func() bool { n, err := box.OOMKills(); return err != nil || n > 0 })
			got := s.Since(pods, noon.Add(time.Second))
			if own {
				if len(got) != 1 || got[0].Name() != "n/victim" || got[0].OOMKills != 1 || got[0].Limit != 32*mib || !got[0].Own() {
					t.Errorf("%+v", got)
				}
				return
			}
			reported := false
			for i := range got {
				if got[i].Pod != nil && (got[i].Own() || got[i].OOMKills > 0) {
					t.Errorf("the pod is reported at a limit of its own: %+v", got[i])
				}
				reported = reported || got[i].Where == box.Path() && got[i].AtMax > 0 && got[i].Limit == 128*mib && !got[i].Own()
			}
			if !reported {
				t.Errorf("the node's limit is not reported: %+v", got)
			}
		})
	}
}

// TestStalls_ReportsKubepodsAtLimit checks that the limit of all pods counts for the node.
func TestStalls_ReportsKubepodsAtLimit(t *testing.T) {
	box := sandboxNode(t)
	pod := addPod(t, box, "x", sandbox.Burstable, "app")
	s := openStalls(t, box)
	file := "memory.limit_in_bytes"
	if box.Version() == 2 {
		file = "memory.max"
	}
	root := strings.TrimSuffix(pod.Dir("memory"), "/burstable/podx")
	if err := os.WriteFile(filepath.Join(root, file), []byte("33554432"), 0); err != nil { //nolint:gosec // a kernel file
		t.Fatal(err)
	}
	pods := []signals.Pod{{UID: "x", Namespace: "n", Name: "x"}}
	h := box.Run(t, pod, "app")
	s.Since(pods, noon)
	if err := runCommand(t, h, "cache 64MiB in "+onDisk+" fsync drop"); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, stall := range s.Since(pods, noon.Add(time.Second)) {
		if stall.Own() {
			t.Errorf("%+v", stall)
		}
		if stall.Pod == nil {
			names = append(names, stall.Name())
		}
	}
	if len(names) != 1 || names[0] != box.Path()+"/kubepods" {
		t.Errorf("got parts of the node %q, want kubepods", names)
	}
}
