package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// restarts is an evicted pod, and the world of a restartEnder.
type restarts struct {
	*restartEnder
	pod    cgroup.Pod
	gone   bool
	active bool // according to the API server
	armed  error
	lines  *logcapture.Book
	killed []kill.Target
	fails  error
}

const restartedUID = "7f1b1e5c-2f7b-4b0a-9d7e-1d3c5b7a9f01"

// newRestarts returns a pod that was evicted with its sandbox and the container a.
func newRestarts(t *testing.T) *restarts {
	lines, evicted := &logcapture.Book{}, &evictedPods{added: make(chan struct{}, 1)}
	r := &restarts{lines: lines, pod: cgroup.Pod{UID: restartedUID, Path: "/kubepods/pod" + restartedUID, Inode: 7}}
	r.restartEnder = &restartEnder{
		evicted: evicted, log: lines.Logger(), failed: map[string]bool{},
		find: func(string) (cgroup.Pod, error) {
			if r.gone {
				return cgroup.Pod{}, fs.ErrNotExist
			}
			return r.pod, nil
		},
		ended:  func(uid string) bool { return uid == restartedUID && !r.active },
		mayAct: func() error { return r.armed },
		kill: func(_ context.Context, t kill.Target) (kill.Result, error) {
			r.killed = append(r.killed, t)
			if r.fails != nil {
				return kill.Result{}, r.fails
			}
			return kill.Result{Signalled: 1}, nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go r.run(ctx)
	r.starts("sandbox")
	r.starts("a")
	r.evict()
	return r
}

// evict adds the pod to those that were evicted.
func (r *restarts) evict() {
	r.evicted.add(kill.Target{UID: restartedUID, Path: r.pod.Path, Inode: r.pod.Inode, Exempt: []string{"sandbox"}}, []string{"sandbox", "a"})
}

// wait waits in virtual time.
func (r *restarts) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// starts adds a directory to the pod.
func (r *restarts) starts(name string) {
	r.pod.Containers = append(r.pod.Containers, cgroup.Container{Name: name, Path: r.pod.Path + "/" + name})
}

// ends removes a directory from the pod.
func (r *restarts) ends(name string) {
	r.pod.Containers = slices.DeleteFunc(r.pod.Containers, func(c cgroup.Container) bool { return c.Name == name })
}

func TestRestartEnder_EndsContainersOfEvictedPod(t *testing.T) {
	for _, tc := range []struct {
		name  string
		story func(*restarts)
		kills int
	}{
		{"the kubelet starts a container again", func(r *restarts) { r.ends("a"); r.starts("b") }, 1},
		{"the dead container's directory remains", func(r *restarts) { r.starts("b") }, 1},
		{"the pod has a new directory", func(r *restarts) { r.pod.Inode++; r.pod.Containers = nil; r.starts("b") }, 1},
		{"the kubelet makes a new sandbox", func(r *restarts) { r.pod.Containers = nil; r.starts("sandbox2") }, 1},
		{"nothing is started", func(r *restarts) { r.ends("a") }, 0},
		{"the pod is gone", func(r *restarts) { r.starts("b"); r.gone = true }, 0},
		{"a monitor of a container", func(r *restarts) { r.ends("a"); r.starts("crio-conmon-b") }, 0},
		{"the kubelet has written Running: the pod is active again", func(r *restarts) { r.starts("b"); r.active = true }, 0},
		{"the agent is disarmed", func(r *restarts) { r.starts("b"); r.armed = agent.ErrDisarmed }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRestarts(t)
				r.wait(100 * time.Millisecond)
				if len(r.killed) > 0 {
					t.Fatalf("killed once more: %+v", r.killed)
				}
				tc.story(r)
				r.wait(restartPeriod)
				if len(r.killed) != tc.kills || r.lines.Count("Killed the containers that the kubelet had started") != tc.kills {
					t.Fatalf("%d kills, want %d: %+v\n%s", len(r.killed), tc.kills, r.killed, r.lines)
				}
				for _, k := range r.killed {
					if k.UID != restartedUID || k.Inode != r.pod.Inode || !slices.Contains(k.Exempt, "sandbox") {
						t.Errorf("killed %+v", k)
					}
				}
			})
		})
	}
}

// A container that starts later stays: the kubelet has synchronised the pod long before.
func TestRestartEnder_EndsItsSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarts(t)
		r.wait(restartTime + restartPeriod)
		r.starts("b")
		if r.wait(time.Hour); len(r.killed) > 0 {
			t.Errorf("killed %+v", r.killed)
		}
		r.evict() // once more
		if r.wait(time.Second); len(r.killed) == 0 {
			t.Error("no search after the next eviction")
		}
	})
}

// A kill that fails is repeated, with one line.
func TestRestartEnder_RepeatsFailedKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarts(t)
		r.fails = errors.New("no permission")
		r.starts("b")
		if r.wait(time.Minute); len(r.killed) < 100 || r.lines.Count("no permission") != 1 {
			t.Errorf("%d attempts, want 120, and one line:\n%s", len(r.killed), r.lines)
		}
	})
}

func TestEvictedPods_AreBounded(t *testing.T) {
	var e evictedPods
	for i := range 3 * maxEvicted {
		e.add(kill.Target{UID: string(rune('a' + i))}, nil)
	}
	if len(e.pods) > maxEvicted {
		t.Errorf("%d pods are known, want at most %d", len(e.pods), maxEvicted)
	}
}
