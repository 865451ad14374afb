package stats

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// maxHanging is the maximum number of concurrently hanging walks, one per pod. Each occupies a
// thread.
const maxHanging = 32

// walkers measures the pods of a round one after the other. All walks run on one thread, and on
// a new one after a hanging walk.
type walkers struct {
	d    *Directories
	ctx  context.Context
	tops tops
	one  *walking // nil if it must be started
}

// walking is a thread that walks directories.
type walking struct {
	tasks   chan *task
	results chan walked // one slot: an abandoned walk does not block
	ended   chan struct{}
	where   string // guarded by Directories.mu
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
	err := w.d.abandon(t.uid, one)
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

func (w *walkers) end() {
	if w.one != nil {
		close(w.one.tasks)
		<-w.one.ended
	}
}

// start starts a thread that ends when its tasks channel is closed.
func (w *walkers) start() *walking {
	one := &walking{tasks: make(chan *task), results: make(chan walked, 1), ended: make(chan struct{})}
	tops := w.tops.duplicate()
	go func() {
		defer close(one.ended)
		defer tops.close()
		defer w.d.returned(one)
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

func (d *Directories) abandon(uid string, one *walking) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(one.tasks)
	d.hanging[uid] = one
	return one.hangs()
}

// returned removes a walk from the hanging ones.
func (d *Directories) returned(one *walking) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, hanging := range d.hanging {
		if hanging == one {
			delete(d.hanging, uid)
		}
	}
}

// hangs returns the error of a hanging walk. The caller holds Directories.mu.
func (w *walking) hangs() error {
	return fmt.Errorf("%s has not answered in time: the disk or the server behind it may hang, see the kernel's log", w.where)
}
