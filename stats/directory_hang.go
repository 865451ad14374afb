package stats

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Maximum numbers of concurrently hanging walks, one per pod and one per directory of the host. Each
// occupies a thread.
const (
	maxHanging     = 32
	maxHostHanging = 16
)

// walkers measures the pods of a round one after the other. All walks of all rounds run on one
// thread, and on a new one after a hanging walk.
type walkers struct {
	d    *Directories
	ctx  context.Context
	tops tops
	one  *walking // nil: none yet in this round
	walk walk     // of one
}

// walking is a thread that walks directories. Its last fields are guarded by Directories.mu.
type walking struct {
	walks     chan walk
	results   chan walked // one slot: empty, or not abandoned
	where     string
	abandoned bool // no measurement waits for the result
}

// walk is the measurement of a pod, or the search for a directory of the host. Walks of a round have
// the walker and the files in common, which belong to the thread once a walk was abandoned.
type walk struct {
	walker *walker
	tops   tops
	task   *task  // to be measured
	search string // path to be found, if there is no task
}

type walked struct {
	podDirectories
	found found
	err   error
}

// measure measures a pod and publishes the result. A walk that exceeds its time is abandoned,
// and its pod is not walked again until that walk returns.
func (w *walkers) measure(t *task) error {
	r, err := w.run(t.uid, t.time, walk{task: t})
	if err != nil {
		w.d.publish(t.uid, t.unknown(err))
		return err
	}
	w.d.publish(t.uid, r.podDirectories)
	return r.err
}

// run runs a walk on the round's thread. Returns an error if the walk hangs, or may not begin. The
// key names the walk while it hangs.
func (w *walkers) run(key string, most time.Duration, next walk) (r walked, err error) {
	if err := w.d.mayWalk(key); err != nil {
		return r, err
	}
	if w.one == nil {
		w.one = w.d.thread()
		w.walk = walk{walker: &walker{ctx: w.ctx, links: map[link]struct{}{}}, tops: w.tops.duplicate()}
	}
	one := w.one
	next.walker, next.tops = w.walk.walker, w.walk.tops
	one.walks <- next
	limit := time.NewTimer(most + w.d.endWait)
	defer limit.Stop()
	select {
	case r := <-one.results:
		return r, nil
	case <-limit.C:
	case <-w.ctx.Done():
		limit.Reset(w.d.endWait / 2)
		select {
		case r := <-one.results:
			return r, nil
		case <-limit.C:
		}
	}
	if r, err = w.d.abandon(key, one); err != nil {
		w.one = nil
	}
	return r, err
}

// unknown returns an empty measurement with its cause.
func (t *task) unknown(why error) podDirectories {
	m := podDirectories{tried: time.Now()}
	for i := range t.where {
		m.parts = append(m.parts, part{place: t.where[i].place, at: m.tried, short: why.Error()})
	}
	return m
}

// end leaves the thread to the next round.
func (w *walkers) end() {
	if w.one == nil {
		return
	}
	w.walk.tops.close()
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.d.idle = append(w.d.idle, w.one)
}

// thread returns a thread of an earlier round, or starts one. Its priority is low, which cannot be
// undone without a right, so the thread is kept: a new one in each round would use up the threads
// that the agent has reserved.
func (d *Directories) thread() *walking {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.idle) - 1; last >= 0 {
		one := d.idle[last]
		d.idle = d.idle[:last]
		return one
	}
	one := &walking{walks: make(chan walk), results: make(chan walked, 1)}
	go d.run(one)
	return one
}

// run walks for the life of the process.
func (d *Directories) run(one *walking) {
	runtime.LockOSThread()
	d.yield()
	at := func(dir string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		one.where = dir
	}
	for next := range one.walks {
		var r walked
		if next.task != nil {
			r.podDirectories, r.err = d.measurePod(next.walker, next.tops, next.task, at)
		} else {
			at(next.search)
			r.found, r.err = d.find(next.search)
		}
		if !d.deliver(one, r) {
			next.tops.close()
		}
	}
}

// duplicate duplicates the descriptors of the same directories.
func (t tops) duplicate() tops {
	for i, fd := range t {
		if fd < 0 {
			continue
		}
		var err error
		if t[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t[i] = -1
		}
	}
	return t
}

// mayWalk returns an error if a pod, or a directory of the host, can not be walked now. Hanging
// directories of the host do not prevent the walks through pods.
func (d *Directories) mayWalk(key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.hanging[key]; one != nil {
		return one.hangs()
	}
	host := 0
	for other := range d.hanging {
		if isOnHost(other) {
			host++
		}
	}
	switch {
	case isOnHost(key) && host >= maxHostHanging:
		return fmt.Errorf("the walks through %d directories of the host hang: no more are begun", host)
	case !isOnHost(key) && len(d.hanging)-host >= maxHanging:
		return fmt.Errorf("the walks through %d pods hang: no more are begun", maxHanging)
	}
	return nil
}

// isOnHost reports whether a key is the path of a directory of the host. Other keys are UIDs of pods.
func isOnHost(key string) bool { return strings.HasPrefix(key, "/") }

// abandon leaves a walk that took too long, unless its result has just come.
func (d *Directories) abandon(key string, one *walking) (r walked, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case r = <-one.results:
		return r, nil
	default:
	}
	one.abandoned = true
	d.hanging[key] = one
	return walked{}, one.hangs()
}

// deliver hands over the result of a walk. After an abandoned walk it reports false: the thread is
// free for later rounds, and the pod may be walked again.
func (d *Directories) deliver(one *walking, r walked) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !one.abandoned {
		one.results <- r
		return true
	}
	one.abandoned = false
	maps.DeleteFunc(d.hanging, func(_ string, hanging *walking) bool { return hanging == one })
	d.idle = append(d.idle, one)
	return false
}

// hangs returns the error of a hanging walk. The caller holds Directories.mu.
func (w *walking) hangs() error {
	return fmt.Errorf("%s has not answered in time: the disk or the server behind it may hang, see the kernel's log", w.where)
}
