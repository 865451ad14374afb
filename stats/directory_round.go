package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/signal"
)

// A place is one of those that a pod's use of disks is made of.
type place struct {
	storage signal.Storage // 0 for what counts for the pod alone
	name    string         // of the container or the volume
}

// A task is to measure one pod.
type task struct {
	uid, key string
	where    []location
	tried    time.Time // when it was tried last, zero for never
}

// A location is where a directory of a pod lies.
type location struct {
	place
	logs bool   // it lies below the directory of logs, not the kubelet's
	path string // below that
}

// plan makes tasks of pods, first the one that waits longest for its turn. The
// pods are not looked at afterwards.
func (d *Directories) plan(pods []signal.Pod) []task {
	todo := make([]task, len(pods))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range pods {
		p := &pods[i]
		todo[i] = task{p.UID, p.Key(), locations(p), d.pods[p.UID].tried}
	}
	slices.SortStableFunc(todo, func(a, b task) int { return a.tried.Compare(b.tried) })
	return todo
}

// locations lists where a pod's files lie. Names that lead elsewhere, as an
// object that no API server has checked might have them, are no location.
func locations(p *signal.Pod) []location {
	if !isName(p.UID) {
		return nil
	}
	var found []location
	if log := p.Namespace + "_" + p.Name + "_" + p.UID; isName(log) {
		for _, c := range p.Containers {
			if isName(c.Name) {
				found = append(found, location{place{signal.Logs, c.Name}, true, log + "/" + c.Name})
			}
		}
	}
	for _, v := range p.Volumes {
		if v.Local && filepath.IsLocal(v.Directory) {
			found = append(found, location{place{signal.LocalVolumes, v.Name}, false, p.UID + "/volumes/" + filepath.Clean(v.Directory)})
		}
	}
	// What containers write to /etc/hosts and as their termination message.
	for _, name := range []string{"etc-hosts", "containers"} {
		found = append(found, location{place{0, name}, false, p.UID + "/" + name})
	}
	return found
}

func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// round measures pods until all are measured or ctx ends. It takes its thread
// with it.
func (d *Directories) round(ctx context.Context, todo []task) error {
	runtime.LockOSThread()
	yield()
	d.at("the container runtime")
	layersErr := d.readLayers(ctx)
	tops, topsErr := d.openTops()
	defer tops.close()
	w := &walker{ctx: ctx, links: map[link]struct{}{}}
	short, first := 0, error(nil)
	for i := range todo {
		t := &todo[i]
		err := context.Cause(ctx)
		if err == nil {
			err = d.measurePod(w, tops, t)
		}
		if err != nil {
			short++
			first = cmp.Or(first, fmt.Errorf("%s: %w", t.key, err))
		}
	}
	d.forget()
	if first != nil {
		first = fmt.Errorf("measure the directories of pods: %d of %d not completely, the first of them %w", short, len(todo), first)
	}
	return errors.Join(topsErr, layersErr, first)
}

// tops are the directories in which those of all pods lie, open.
type tops struct{ volumes, logs int }

func (d *Directories) openTops() (t tops, err error) {
	var errs [2]error
	d.at(d.options.KubeletRoot)
	t.volumes, errs[0] = openOnHost(d.options.HostRoot, filepath.Join(d.options.KubeletRoot, "pods"))
	d.at(d.options.PodLogs)
	t.logs, errs[1] = openOnHost(d.options.HostRoot, d.options.PodLogs)
	return t, errors.Join(errs[:]...)
}

func (t tops) close() {
	for _, fd := range []int{t.volumes, t.logs} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// measurePod walks a pod's directories. One that is not there has no part: a
// container that has not started, a pod that has gone. The error is the first
// reason why a part is a lower bound or missing.
func (d *Directories) measurePod(w *walker, tops tops, t *task) (first error) {
	m := podDirectories{tried: time.Now()}
	w.start(m.tried.Add(d.options.PodTime), d.options.Entries)
	for i := range t.where {
		l := &t.where[i]
		top, dir := tops.volumes, filepath.Join(d.options.KubeletRoot, "pods", l.path)
		if l.logs {
			top, dir = tops.logs, filepath.Join(d.options.PodLogs, l.path)
		}
		if top < 0 {
			continue // said once for all pods
		}
		d.at(dir)
		at := time.Now()
		err := w.tree(top, l.path)
		if errnoOf(err) == unix.ENOENT {
			continue
		}
		if err = cmp.Or(err, w.cut); err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", dir, err))
		}
		m.parts = append(m.parts, part{l.place, at, signal.Bytes(w.bytes), signal.Inodes(w.inodes), err != nil})
	}
	d.publish(t.uid, m)
	return first
}

func (d *Directories) at(where string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.where = where
}

// publish replaces what is known of a pod. Of a part that was cut short, what
// was known before stays if it is more and still counts; a lower bound of
// nothing says nothing.
func (d *Directories) publish(uid string, m podDirectories) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.pods[uid]
	for i := range m.parts {
		p := &m.parts[i]
		if was := old.find(p.place); p.short && was != nil && was.bytes >= p.bytes && d.counts(was.at, p.at) {
			*p = *was
		}
	}
	m.parts = slices.DeleteFunc(m.parts, func(p part) bool { return p.short && p.inodes == 0 })
	d.pods[uid] = m
}

func (m *podDirectories) find(at place) *part {
	for i := range m.parts {
		if m.parts[i].place == at {
			return &m.parts[i]
		}
	}
	return nil
}

// forget drops pods that nobody has asked for in a while: they ended.
func (d *Directories) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for uid, m := range d.pods {
		if !d.counts(m.tried, now) {
			delete(d.pods, uid)
		}
	}
}
