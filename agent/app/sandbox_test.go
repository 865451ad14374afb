package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/stats"
)

const sandboxedUID = "6f1d0d7c-2b4e-4a51-9c8a-000000000007"

// directories returns the cgroups of a pod for these IDs.
func directories(prefix string, ids ...string) (all []cgroup.Container) {
	for _, id := range ids {
		all = append(all, cgroup.Container{Name: id, Path: "/kubepods.slice/pod/" + prefix + id + ".scope"})
	}
	return all
}

func withSandboxes(found ...cri.Sandbox) *node {
	n := &node{sandboxes: newSandboxes(), cgroups: stats.OpenPods(cgroup.At(cgroup.V2, "/nowhere"), "/")}
	n.sandboxes.set(found)
	return n
}

// Only sandboxes in the runtime's current list are exempt, regardless of the pod's status.
func TestExemptDirectories_SandboxOfRuntimeOnly(t *testing.T) {
	n := withSandboxes(cri.Sandbox{ID: "s", UID: sandboxedUID, Ready: true}, cri.Sandbox{ID: "other", UID: "another"}, cri.Sandbox{ID: "none"})
	for name, c := range map[string]struct {
		found []cgroup.Container
		want  []string
	}{
		"containerd":                       {directories("cri-containerd-", "1", "s", "2"), []string{"cri-containerd-s.scope"}},
		"CRI-O":                            {directories("crio-", "1", "s"), []string{"crio-s.scope"}},
		"CRI-O without infra, as reported": {directories("crio-", "1", "2"), nil},
		"CRI-O, a sidecar restarted":       {directories("crio-", "1", "2b"), nil},
		"CRI-O, all but one ended":         {directories("crio-", "2b"), nil},
		"sandbox of another pod":           {directories("cri-containerd-", "1", "other", "none"), nil},
		"conmon":                           {[]cgroup.Container{{Name: "conmon-9", Path: "/k/p/crio-conmon-9.scope"}}, []string{"crio-conmon-9.scope"}},
	} {
		for range 2 {
			if got := n.exemptDirectories(sandboxedUID, c.found); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
	if got := withSandboxes().exemptDirectories(sandboxedUID, directories("cri-containerd-", "1", "s")); got != nil {
		t.Errorf("%q are exempt without a list of sandboxes", got)
	}
}

// A sandbox that holds the containers' memory, such as a kernel in user space, is not
// exempt: no memory would be freed.
func TestExemptDirectories_NotSandboxThatHoldsMemory(t *testing.T) {
	for memory, exempt := range map[signals.Bytes]bool{1 << 20: true, maxSandboxMemory + 1: false} {
		h := cgroup.At(cgroup.V2, t.TempDir())
		for _, place := range []string{"", "/s", "/1"} {
			dir := h.Dir("memory", "/kubepods/pod"+sandboxedUID+place)
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			stat := fmt.Sprintf("anon %d\nfile 0\nactive_file 0\ninactive_file 0\n", memory)
			for name, text := range map[string]string{"memory.current": fmt.Sprintln(memory), "memory.stat": stat, "cgroup.procs": "1\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		n := withSandboxes(cri.Sandbox{ID: "s", UID: sandboxedUID})
		n.cgroups = stats.OpenPods(h, "/")
		defer n.cgroups.Close()
		n.cgroups.MeasureMemory([]signals.Pod{{UID: sandboxedUID}}, nil)
		found, _ := n.cgroups.Cgroup(sandboxedUID)
		if got := n.exemptDirectories(sandboxedUID, found.Containers); (len(got) == 1) != exempt {
			t.Errorf("sandbox of %d bytes: exempt %q", memory, got)
		}
	}
}

// The list is read again beside the loop. A sandbox that is no longer listed is no longer
// exempt. A failed request changes nothing.
func TestSandboxes_FollowRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := [][]cri.Sandbox{{{ID: "s", UID: "u"}}, nil, {{ID: "s2", UID: "u"}}}
		asked := 0
		n := withSandboxes()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.sandboxes.watch(ctx, func(context.Context) ([]cri.Sandbox, error) {
			answer := answers[min(asked, len(answers)-1)]
			if asked++; answer == nil {
				return nil, errors.New("no answer")
			}
			return answer, nil
		})
		for i, want := range []string{"s", "s", "s2"} {
			synctest.Wait()
			for _, id := range []string{"s", "s2"} {
				if n.sandboxes.has("u", id) != (id == want) {
					t.Errorf("after %d answers: %s is exempt: %t", i+1, id, id != want)
				}
			}
			<-time.After(sandboxesPeriod)
		}
		synctest.Wait()
		before := asked
		n.sandboxes.renew()
		if <-time.After(2 * sandboxesMinInterval); asked != before+1 {
			t.Errorf("%d requests after a change of pods, want 1", asked-before)
		}
	})
}

func TestSandboxes_AreBounded(t *testing.T) {
	many := make([]cri.Sandbox, 2*maxSandboxes)
	for i := range many {
		many[i] = cri.Sandbox{ID: fmt.Sprint(i), UID: "u"}
	}
	var s sandboxes
	if s.set(many); len(*s.of.Load()) != maxSandboxes {
		t.Errorf("%d sandboxes stored", len(*s.of.Load()))
	}
}
