package app

import (
	"cmp"
	"context"
	"fmt"
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
	evicted   evictedPods
	pod       cgroup.Pod
	findFault error
	watched   bool // the watch has the pod as ended
	ended     bool // the API server has
	readFault error
	armed     error
	goesOn    bool // the kill of the eviction
	empty     bool // no process is left
	reads     int  // of the pod
	lines     *logcapture.Book
	attempts  []kill.Target
	fails     error
	signalled int      // processes at each attempt
	open      int      // killers
	reported  []string // containers
}

func (r *restarts) Immediate(_ context.Context, t kill.Target) (kill.Result, error) {
	r.attempts = append(r.attempts, t)
	return kill.Result{Signalled: r.signalled}, r.fails
}

func (r *restarts) Ended(kill.Target) bool { return r.empty }

func (r *restarts) Close() error {
	r.open--
	return nil
}

const restartedUID = "7f1b1e5c-2f7b-4b0a-9d7e-1d3c5b7a9f01"

// newRestarts returns a pod that was evicted with its sandbox and the container a.
func newRestarts(t *testing.T) *restarts {
	r := &restarts{lines: &logcapture.Book{}, signalled: 1, watched: true, ended: true, pod: cgroup.Pod{UID: restartedUID, Path: "/kubepods/pod" + restartedUID, Inode: 7},
		evicted: evictedPods{added: make(chan evictedPod, evictedSlots)}}
	r.restartEnder = &restartEnder{
		added: r.evicted.added, log: r.lines.Logger(), pods: map[string]*evictedBefore{},
		ended:     func(uid string) bool { return uid == restartedUID && r.watched },
		find:      func(string) (cgroup.Pod, error) { return r.pod, r.findFault },
		continues: func(kill.Target) bool { return r.goesOn },
		mayAct:    func() error { return r.armed },
		read: func(context.Context, *evictedPod) (bool, error) {
			r.reads++
			return r.ended, r.readFault
		},
		killer: func() (podKiller, error) {
			r.open++
			return r, nil
		},
		killed: func(_ string, containers []string) { r.reported = append(r.reported, containers...) },
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
	r.evicted.add(evictedPod{"shop", "p", kill.Target{UID: restartedUID, Path: r.pod.Path, Inode: r.pod.Inode, Exempt: []string{"sandbox"}}, []string{"sandbox", "a"}})
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
		fault string // in the log
	}{
		{"the kubelet starts a container again", func(r *restarts) { r.ends("a"); r.starts("b") }, 1, ""},
		{"the dead container's directory remains", func(r *restarts) { r.starts("b") }, 1, ""},
		{"the pod has a new directory", func(r *restarts) { r.pod.Inode++; r.pod.Containers = nil; r.starts("b") }, 1, ""},
		{"the kubelet makes a new sandbox", func(r *restarts) { r.pod.Containers = nil; r.starts("sandbox2") }, 1, ""},
		{"a directory without processes", func(r *restarts) { r.starts("b"); r.empty = true }, 0, ""},
		{"nothing is started", func(r *restarts) { r.ends("a") }, 0, ""},
		{"the pod is gone", func(r *restarts) { r.starts("b"); r.findFault = fs.ErrNotExist }, 0, ""},
		{"the pod can not be found", func(r *restarts) { r.starts("b"); r.findFault = fs.ErrPermission }, 0, "permission denied"},
		{"a monitor of a container", func(r *restarts) { r.ends("a"); r.starts("crio-conmon-b") }, 0, ""},
		{"the kubelet has written Running: the pod is active again", func(r *restarts) { r.starts("b"); r.watched = false }, 0, ""},
		{"the same, and the watch is late", func(r *restarts) { r.starts("b"); r.ended = false }, 0, ""},
		{"the API server does not answer", func(r *restarts) { r.starts("b"); r.readFault = context.DeadlineExceeded }, 0, "deadline exceeded"},
		{"the agent is disarmed", func(r *restarts) { r.starts("b"); r.armed = agent.ErrDisarmed }, 0, ""},
		{"the first kill goes on", func(r *restarts) { r.starts("b"); r.goesOn = true }, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRestarts(t)
				if r.wait(time.Second); len(r.attempts) > 0 {
					t.Fatalf("killed once more: %+v", r.attempts)
				}
				tc.story(r)
				r.wait(restartPeriod)
				if len(r.attempts) != tc.kills || r.lines.Count("Killed the containers that the kubelet had started") != tc.kills || len(r.reported) != tc.kills {
					t.Fatalf("%d kills, want %d: %+v\n%s", len(r.attempts), tc.kills, r.attempts, r.lines)
				}
				for _, k := range r.attempts {
					if k.UID != restartedUID || k.Inode != r.pod.Inode || !slices.Contains(k.Exempt, "sandbox") {
						t.Errorf("killed %+v", k)
					}
				}
				r.empty = true
				if r.wait(time.Minute); r.reads > 1 && r.ended && r.readFault == nil {
					t.Errorf("the pod was read %d times", r.reads)
				}
				if n := r.lines.Count("level=ERROR"); n != r.lines.Count(cmp.Or(tc.fault, "none")) || n > 1 || (n == 1) != (tc.fault != "") {
					t.Errorf("want one error %q at most:\n%s", tc.fault, r.lines)
				}
			})
		})
	}
}

// The search ends some time after the last kill. A container that starts later stays: the kubelet has synchronised the pod
// long before.
func TestRestartEnder_EndsItsSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarts(t)
		for i := range 5 { // a kubelet without a connection
			r.ends(fmt.Sprint(i - 1))
			r.starts(fmt.Sprint(i))
			if r.wait(5 * time.Minute); !slices.Contains(r.reported, fmt.Sprint(i)) {
				t.Fatalf("start %d: no kill", i)
			}
			r.pod.Containers = nil
		}
		r.wait(restartTime + 2*restartPeriod)
		attempts := len(r.attempts)
		r.starts("late")
		if r.wait(time.Hour); len(r.attempts) > attempts || len(r.pods) > 0 || r.open != 0 {
			t.Errorf("%d further kills, %d pods, %d open killers", len(r.attempts)-attempts, len(r.pods), r.open)
		}
		r.evict() // once more
		if r.wait(time.Second); len(r.attempts) == attempts {
			t.Error("no search after the next eviction")
		}
	})
}

// A kill that fails or takes long is repeated, with one line, and with the same killer: the kill may continue in it.
func TestRestartEnder_RepeatsKill(t *testing.T) {
	for _, tc := range []struct {
		name      string
		signalled int
		reported  int
	}{
		{"no process was signalled", 0, 0},
		{"the processes are exiting", 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRestarts(t)
				r.fails, r.signalled = kill.ErrTimeout, tc.signalled
				r.starts("b")
				if r.wait(time.Minute); len(r.attempts) < 100 || r.lines.Count(kill.ErrTimeout.Error()) != 1-tc.reported || r.open != 1 || len(r.reported) != tc.reported {
					t.Errorf("%d attempts, want 120, and one line without a signal; %d open killers, %d reported:\n%s", len(r.attempts), r.open, len(r.reported), r.lines)
				}
				r.fails, r.signalled = nil, 1
				r.starts("c")
				if r.wait(restartPeriod); r.lines.Count("Killed the containers") != 1+tc.reported || !slices.Contains(r.reported, "c") {
					t.Errorf("no success:\n%s", r.lines)
				}
			})
		})
	}
}

func TestEvictedPods_AreBounded(t *testing.T) {
	var e evictedPods
	for i := range 3 * maxEvicted {
		e.add(evictedPod{target: kill.Target{UID: fmt.Sprint(i)}})
	}
	if len(e.targets) > maxEvicted {
		t.Errorf("%d pods are known, want at most %d", len(e.targets), maxEvicted)
	}
}
