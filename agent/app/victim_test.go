package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
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
	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	os.Exit(m.Run())
}

// endedPod returns a node with one pod that runs its sandbox only, after how ended its
// container.
func endedPod(t *testing.T, how func(*victim) (agent.EvictionResult, error)) (n *node, box *sandbox.Node, pod *sandbox.Pod, e *eviction.Eviction) {
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
		killer: k, evictor: &evict.Evictor{}, arming: stateWithoutFile(false), sandboxes: &sandboxes{}, hierarchy: h, log: slog.New(slog.DiscardHandler)}
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
		t.Fatalf("%+v, %v, want one process besides the sandbox's", killed, err)
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

func (podList) fault() error { return nil }

// A pod that runs its sandbox only is not evicted for memory, regardless of the cause of its
// end. It may use as much disk as before.
func TestVictim_RejectsEndedPod(t *testing.T) {
	n, _, _, e := endedPod(t, func(v *victim) (agent.EvictionResult, error) {
		r, err := v.Kill(t.Context())
		return agent.EvictionResult{Processes: r.Signalled}, err
	})
	for cause, refused := range map[string]bool{signals.MemoryAvailable.String(): true, signals.PIDAvailable.String(): true,
		signals.NodefsAvailable.String(): false, eviction.PodStorageLimit: false} {
		e.Cause = cause
		if _, err := n.Victim(e); (err != nil) != refused || refused && !strings.Contains(err.Error(), "would free nothing") {
			t.Errorf("%s: %v", cause, err)
		}
	}
	if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 1 || len(measured) != 1 {
		t.Errorf("for disks: %+v, %+v", stored, measured)
	}
}

// The API server may report an eviction after the next check. Until then the pod is not
// evicted again for any reason, unless it runs again.
func TestMeasure_EvictedPodIsNoCandidateUntilItRuns(t *testing.T) {
	for name, how := range map[string]func(*victim) (agent.EvictionResult, error){
		"hard": func(v *victim) (agent.EvictionResult, error) {
			return v.Immediate(t.Context(), t.Context(), t.Context(), time.Minute)
		},
		"soft": func(v *victim) (agent.EvictionResult, error) {
			return v.Graceful(t.Context(), time.Minute, agent.Changes{})
		},
		"escalated": func(v *victim) (agent.EvictionResult, error) { return v.Finish(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			n, box, pod, _ := endedPod(t, how)
			if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 0 || len(measured) != 0 {
				t.Errorf("%+v, %+v", stored, measured)
			}
			sleep(t, box, pod, "main")
			if stored, measured := n.Stored(), n.Measure(t.Context()); len(stored) != 1 || len(measured) != 1 {
				t.Errorf("restarted: %+v, %+v", stored, measured)
			}
		})
	}
}

// countingStatus implements evict.Status with immediate success.
type countingStatus struct{ statuses int }

func (r *countingStatus) Enqueue(evict.Notice) {}

func (r *countingStatus) Report(context.Context, evict.Notice) error {
	r.statuses++
	return nil
}

func (r *countingStatus) Commit(evict.Notice) {}

func (r *countingStatus) Cancel(evict.Notice) {}

func (r *countingStatus) Announce(evict.Notice) {}

// A nodeWithHeldMemory has a pod without processes that holds files in memory, and one that
// runs and holds less.
type nodeWithHeldMemory struct {
	*node
	pods   podList
	file   string // of the first pod, in memory
	server *countingStatus
}

func newNodeWithHeldMemory(t *testing.T) *nodeWithHeldMemory {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.Make(t, "holder", 512<<20)
	k, err := kill.New(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	var pods podList
	boxed := make([]*sandbox.Pod, 2)
	for i, name := range []string{"holder", "other"} {
		uid := fmt.Sprintf("6f1d0d7c-2b4e-4a51-9c8a-00000000010%d", i)
		if boxed[i], err = box.AddPod(uid, sandbox.Burstable, "main"); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, signals.Pod{UID: uid, Namespace: "default", Name: name, FromAPI: true, Containers: []signals.Container{{Name: "main"}}})
	}
	pods[1].Containers[0].ID = "main"
	w := &nodeWithHeldMemory{pods: pods, server: &countingStatus{}, file: filepath.Join("/dev/shm", box.Path()[1:]+"-held")}
	t.Cleanup(func() { _ = os.Remove(w.file) })
	dd, err := box.Start(boxed[0], "main", exec.Command("dd", "if=/dev/zero", "of="+w.file, "bs=1M", "count=120"))
	if err != nil {
		t.Fatal(err)
	}
	<-dd.Done()
	if !dd.State().Success() {
		t.Fatalf("dd: %v", dd.State())
	}
	box.Run(t, boxed[1], "main", "fill 60MiB")
	w.node = &node{hierarchy: h, cgroups: stats.OpenPods(h, box.Path()), source: pods, directories: stats.OpenDirectories(stats.DirectoryOptions{}),
		killer: k, evictor: &evict.Evictor{Status: w.server}, arming: stateWithoutFile(false), sandboxes: &sandboxes{}, log: slog.New(slog.DiscardHandler)}
	w.provider = w.cgroups
	t.Cleanup(w.cgroups.Close)
	return w
}

// ranked returns the pods in the order in which they are evicted for memory.
func (w *nodeWithHeldMemory) ranked(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range ranking.Rank(w.Measure(t.Context()), signals.MemoryAvailable, 0) {
		names = append(names, r.Pod.Name)
	}
	return names
}

func (w *nodeWithHeldMemory) victim(t *testing.T) (agent.Victim, error) {
	t.Helper()
	w.Measure(t.Context())
	return w.Victim(&eviction.Eviction{Pod: &w.pods[0], Cause: signals.MemoryAvailable.String(), Hard: true})
}

// A pod is between two runs of its container.
func TestVictim_EvictsPodWithoutProcessesThatHoldsMemory(t *testing.T) {
	w := newNodeWithHeldMemory(t)
	if got := strings.Join(w.ranked(t), " "); got != "holder other" {
		t.Fatalf("ranked %q", got)
	}
	v, err := w.victim(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed, err := v.Immediate(ctx, ctx, t.Context(), time.Minute)
	if err != nil || killed.Processes != 0 || killed.Status != agent.StatusReported || !killed.Unmounting || w.server.statuses != 1 {
		t.Errorf("%+v, %v, %d statuses", killed, err, w.server.statuses)
	}
	if got := strings.Join(w.ranked(t), " "); got != "other" {
		t.Errorf("ranked after its eviction: %q", got)
	}
}

// A soft eviction lasts until the memory is free, not until the processes have ended.
func TestVictim_AwaitsUnmount(t *testing.T) {
	w := newNodeWithHeldMemory(t)
	v, err := w.victim(t)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*unmountPeriod)
	defer cancel()
	if err := v.(*victim).Await(short); err == nil {
		t.Error("the wait ended while the file exists")
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := v.(*victim).Await(ctx); err != nil {
		t.Error(err)
	}
	if got := strings.Join(w.ranked(t), " "); got != "other" {
		t.Errorf("ranked %q after its memory was freed", got)
	}
}

func TestVictim_SkipsPodWithoutFreeableMemory(t *testing.T) {
	w := newNodeWithHeldMemory(t)
	pod := &w.pods[0]
	for want, change := range map[string]func(){
		"which needs a report to an API server":                   func() { w.evictor = &evict.Evictor{} },
		"needs a report to an API server, and none is configured": func() { pod.FromAPI = false },
		"is being deleted":   func() { pod.EndsBy = time.Now() },
		"would free nothing": func() { pod.Containers[0].ID = "ended-a-moment-ago" },
	} {
		*pod, w.evictor = signals.Pod{UID: pod.UID, Namespace: "default", Name: "holder", FromAPI: true, Containers: []signals.Container{{Name: "main"}}}, &evict.Evictor{Status: w.server}
		change()
		if _, err := w.victim(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The success of a container that ended a moment ago is not reported yet.
func TestMeasure_OmitsPodThatEndedJustNow(t *testing.T) {
	w := newNodeWithHeldMemory(t)
	w.pods[0].Containers[0].ID = "ended-a-moment-ago"
	if got := strings.Join(w.ranked(t), " "); got != "other" {
		t.Errorf("ranked %q", got)
	}
}

// After a crash on CRI-O, which has no sandbox process, the pod's volume is still on the
// disk.
func TestMeasure_RanksPodWithoutProcessesThatHoldsDisk(t *testing.T) {
	w := newNodeWithHeldMemory(t)
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	volume := filepath.Join(root, "var/lib/kubelet/pods", w.pods[0].UID, "volumes/kubernetes.io~empty-dir/cache")
	for _, dir := range []string{volume, filepath.Join(root, "var/log/pods")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(volume, "file"), make([]byte, 2*minHeld), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pods[0].Volumes = []signals.Volume{{Name: "cache", Local: true, Directory: "kubernetes.io~empty-dir/cache"}}
	w.directories = stats.OpenDirectories(stats.DirectoryOptions{HostRoot: root, PodTime: time.Minute, RoundTime: time.Minute})
	for _, c := range []struct{ when, container, want string }{
		{"between two runs", "", "holder other"},
		{"just ended", "main", "other"},
	} {
		w.pods[0].Containers[0].ID = c.container
		if err := w.directories.Measure(t.Context(), w.pods); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range ranking.Rank(w.Measure(t.Context()), signals.NodefsAvailable, 0) {
			names = append(names, r.Pod.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: ranked %q, want %q", c.when, got, c.want)
		}
	}
}
