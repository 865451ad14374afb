package agent

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onMonitorThread runs a test with and without real-time permission. The process itself may have none.
func onMonitorThread(t *testing.T, test func(t *testing.T, thread *Thread, l *monitorThread)) {
	granted, _ := TakeThread()
	for name, thread := range map[string]*Thread{"granted": granted, "not granted": {}} {
		t.Run(name, func(t *testing.T) {
			l, err := newMonitorThread(thread)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			test(t, thread, l)
		})
	}
}

func TestMonitorThread_ChecksUntilWorkIsDone(t *testing.T) {
	onMonitorThread(t, func(t *testing.T, _ *Thread, l *monitorThread) {
		for range 3 {
			tryMonitorThread(t, l)
		}
	})
	t.Run("none", func(t *testing.T) { tryMonitorThread(t, nil) })
}

// tryMonitorThread runs work that ends with the third check, and fails on any check after it.
func tryMonitorThread(t *testing.T, l *monitorThread) {
	t.Helper()
	checks, third := 0, make(chan struct{})
	before := time.Now()
	l.during(func() { <-third }, func(now time.Time) {
		if now.Before(before) {
			t.Errorf("a check at %v after one at %v", now, before)
		}
		before = now
		if checks++; checks == 3 {
			close(third)
		}
	})
	after := checks
	l.during(func() {}, func(time.Time) {})
	if checks != after || checks < 3 {
		t.Errorf("%d checks, %d when the work was done", checks, after)
	}
}

// niceThread starts an ordinary thread of niceness 10. It returns its ID, and what reads its class.
func niceThread(t *testing.T) (id int, class func() unix.SchedAttr) {
	started, end := make(chan int), make(chan struct{})
	t.Cleanup(func() { close(end) })
	go func() {
		runtime.LockOSThread()
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10); err != nil {
			t.Error(err)
		}
		setScheduler(unix.Gettid(), ordinaryClass) // the thread may be from a test before
		started <- unix.Gettid()
		<-end
	}()
	id = <-started
	return id, func() unix.SchedAttr {
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			t.Error(err)
			return unix.SchedAttr{}
		}
		return *attr
	}
}

// A kill raises a thread of niceness 10, such as one that measures directories, and lowers it to that again: when the
// processes have exited, or after a time. Without permission nothing changes.
func TestMonitorThread_RaisesOtherThreadsDuringKill(t *testing.T) {
	onMonitorThread(t, func(t *testing.T, thread *Thread, l *monitorThread) {
		id, class := niceThread(t)
		before := class()
		want := before.Policy
		if thread.realtime != nil {
			want = unix.SCHED_RR
		}
		for _, late := range []bool{false, true, false} {
			var got uint32
			var once sync.Once
			checked := make(chan struct{})
			l.during(func() { <-checked }, func(time.Time) {
				once.Do(func() {
					got = class().Policy
					close(checked)
				})
			})
			if got != want {
				t.Errorf("got class %d during a kill, want %d", got, want)
			}
			if l.lowerOthers(true); class().Policy != want {
				t.Errorf("got %+v while processes exit, want class %d", class(), want)
			}
			if late {
				l.others.since = l.others.since.Add(-maxRaised)
			}
			l.lowerOthers(late)
			if after := class(); after != before {
				t.Errorf("got %+v after a kill, want %+v", after, before)
			}
			if thread.realtime != nil {
				setScheduler(id, raisedClass) // as for a thread created while the class was given
				l.others.listed = l.others.listed.Add(-latePace)
				if l.lowerOthers(false); class() != before {
					t.Errorf("got %+v of a late thread, want %+v", class(), before)
				}
			}
		}

		checks, bound := 0, make(chan struct{})
		l.during(func() { <-bound }, func(time.Time) {
			switch checks++; checks {
			case 1:
				l.others.since = l.others.since.Add(-maxRaised)
			case 2:
				if got := class(); got != before {
					t.Errorf("got %+v during a kill after %v, want %+v", got, maxRaised, before)
				}
				close(bound)
			}
		})
	})
}
