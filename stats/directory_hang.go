package stats

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// maxHanging is how many walks may hang at a time, one of a pod. Each holds a thread.
const maxHanging = 32

// walkers measure the pods of a round, one after the other: all on one thread, or, after
// a walk that hangs, on a new one.
type walkers struct {
	d    *Directories
	ctx  context.Context
	tops tops
	one  *walking // nil: to be started
}

// A walking is a thread that walks.
type walking struct {
	tasks   chan *task
	results chan walked // holds one: a walk that was given up does not wait
	ended   chan struct{}
	where   string // guarded by Directories.mu
}

type walked struct {
	podDirectories
	err error
}

// measure measures a pod and publishes the result. A walk that does not come back is
// given up, and its pod is not walked again until it does.
func (w *walkers) measure(t *task) error {
	if err := w.d.mayWalk(t.uid); err != nil {
		w.d.publish(t.uid, t.unknown(err))
		return err
	}
	if w.one == nil {
		w.one = w.start()
	}
	one := w.one
	one.tasks <- t
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
	w.one = nil
	err := w.d.giveUp(t.uid, one)
	w.d.publish(t.uid, t.unknown(err))
	return err
}

func (w *walkers) publish(t *task, r walked) error {
	w.d.publish(t.uid, r.podDirectories)
	return r.err
}

// unknown is that nothing more is known of a pod, and why.
func (t *task) unknown(why error) podDirectories {
	m := podDirectories{tried: time.Now()}
	for i := range t.where {
		m.parts = append(m.parts, part{place: t.where[i].place, at: m.tried, short: why.Error()})
	}
	return m
}

func (w *walkers) end() {
	if w.one != nil {
		close(w.one.tasks)
		<-w.one.ended
	}
}

// start starts a thread, which ends when its tasks do.
func (w *walkers) start() *walking {
	one := &walking{tasks: make(chan *task), results: make(chan walked, 1), ended: make(chan struct{})}
	tops := w.tops.again()
	go func() {
		defer close(one.ended)
		defer tops.close()
		defer w.d.cameBack(one)
		runtime.LockOSThread()
		yield()
		walker := &walker{ctx: w.ctx, links: map[link]struct{}{}}
		for t := range one.tasks {
			m, err := w.d.measurePod(walker, tops, t, func(dir string) {
				w.d.mu.Lock()
				defer w.d.mu.Unlock()
				one.where = dir
			})
			one.results <- walked{m, err}
		}
	}()
	return one
}

// again opens the same directories once more.
func (t tops) again() tops {
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

// mayWalk returns why a pod is not walked now.
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

func (d *Directories) giveUp(uid string, one *walking) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(one.tasks)
	d.hanging[uid] = one
	return one.hangs()
}

// cameBack forgets that a walk hangs.
func (d *Directories) cameBack(one *walking) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, hanging := range d.hanging {
		if hanging == one {
			delete(d.hanging, uid)
		}
	}
}

// hangs is asked under the lock.
func (w *walking) hangs() error {
	return fmt.Errorf("%s has not answered in time: the disk or the server behind it may hang, see the kernel's log", w.where)
}
