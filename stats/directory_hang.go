package stats

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// maxHanging is the maximum number of concurrently hanging walks, one per pod. Each occupies a
// thread.
const maxHanging = 32

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

// walk is the measurement of a pod. Walks of a round have the walker and the files in common, which
// belong to the thread once a walk was abandoned.
type walk struct {
	walker *walker
	tops   tops
	task   *task
}

type walked struct {
	podDirectories
	err error
}

// measure measures a pod and publishes the result. A walk that exceeds its time is abandoned,
// and its pod is not walked again until that walk returns.
func (w *walkers) measure(t *task) error {
	if err := w.d.mayWalk(t.uid); err != nil {
		w.d.publish(t.uid, t.unknown(err))
		return err
	}
	if w.one == nil {
		w.one = w.d.thread()
		w.walk = walk{walker: &walker{ctx: w.ctx, links: map[link]struct{}{}}, tops: w.tops.duplicate()}
	}
	one := w.one
	w.walk.task = t
	one.walks <- w.walk
	limit := time.NewTimer(w.d.options.PodTime + endWait)
	defer limit.Stop()
	select {
	case r := <-one.results:
		return w.publish(t, r)
	case <-limit.C:
	case <-w.ctx.Done():
		limit.Reset(endWait / 2)
		select {
		case r := <-one.results:
			return w.publish(t, r)
		case <-limit.C:
		}
	}
	r, err := w.d.abandon(t.uid, one)
	if err == nil {
		return w.publish(t, r)
	}
	w.one = nil
	w.d.publish(t.uid, t.unknown(err))
	return err
}

func (w *walkers) publish(t *task, r walked) error {
	w.d.publish(t.uid, r.podDirectories)
	return r.err
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
	yield()
	for next := range one.walks {
		m, err := d.measurePod(next.walker, next.tops, next.task, func(dir string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			one.where = dir
		})
		if !d.deliver(one, walked{m, err}) {
			next.tops.close()
		}
	}
}

// duplicate duplicates the descriptors of the same directories.
func (t tops) duplicate() tops {
	for _, fd := range []*int{&t.volumes, &t.logs} {
		if *fd < 0 {
			continue
		}
		var err error
		if *fd, err = unix.FcntlInt(uintptr(*fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			*fd = -1
		}
	}
	return t
}

// mayWalk returns an error if a pod can not be walked now.
func (d *Directories) mayWalk(uid string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.hanging[uid]; one != nil {
		return one.hangs()
	}
	if len(d.hanging) >= maxHanging {
		return fmt.Errorf("the walks through %d pods hang: no more are begun", maxHanging)
	}
	return nil
}

// abandon leaves a walk that took too long, unless its result has just come.
func (d *Directories) abandon(uid string, one *walking) (r walked, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case r = <-one.results:
		return r, nil
	default:
	}
	one.abandoned = true
	d.hanging[uid] = one
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
