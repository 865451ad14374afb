package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// place is one component of a pod's disk usage.
type place struct {
	storage signals.Storage // 0: files of the kubelet, which pods are not ranked by
	name    string          // of the container or the volume
}

// task is the measurement of one pod, or of one directory of the host.
type task struct {
	uid, key string
	where    []location
	tried    time.Time     // time of the last attempt, zero for never
	time     time.Duration // most, for this attempt
	lap      *lap          // to be resumed, nil for none
	// others are directories that are not entered: they are measured on their own. Nil for a pod.
	others map[link]struct{}
}

// location is the path of a directory.
type location struct {
	place
	top  top
	path string // relative to top
}

// top is a directory that contains directories to be measured.
type top uint8

// The tops.
const (
	ofVolumes top = iota // the kubelet's directories of pods
	ofLogs               // the logs of pods
	ofHost               // the root of the host
	topCount
)

// plan returns a task for each pod, the least recently tried first. The pods are not referenced
// afterwards.
func (d *Directories) plan(pods []signals.Pod) []task {
	todo := make([]task, len(pods))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range pods {
		p := &pods[i]
		known := d.pods[p.UID]
		todo[i] = task{uid: p.UID, key: p.Key(), where: locations(p), tried: known.tried, time: d.options.PodTime, lap: known.lap}
	}
	slices.SortStableFunc(todo, func(a, b task) int { return a.tried.Compare(b.tried) })
	return todo
}

// locations returns the directories of a pod's files. It omits names that lead elsewhere, as in
// an object that the API server has not validated.
func locations(p *signals.Pod) []location {
	if !isName(p.UID) {
		return nil
	}
	var found []location
	if log := p.Namespace + "_" + p.Name + "_" + p.UID; isName(log) {
		for _, c := range p.Containers {
			if isName(c.Name) {
				found = append(found, location{place{signals.Logs, c.Name}, ofLogs, log + "/" + c.Name})
			}
		}
	}
	for _, v := range p.Volumes {
		if v.Local && filepath.IsLocal(v.Directory) {
			found = append(found, location{place{signals.LocalVolumes, v.Name}, ofVolumes, p.UID + "/volumes/" + filepath.Clean(v.Directory)})
		}
	}
	// Contains the containers' writes to /etc/hosts and their termination messages.
	for _, name := range []string{"etc-hosts", "containers"} {
		found = append(found, location{place{0, name}, ofVolumes, p.UID + "/" + name})
	}
	return found
}

func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// round measures pods until all are measured or ctx ends.
func (d *Directories) round(ctx context.Context, todo []task) error {
	d.at("the container runtime")
	layersErr := d.queryRuntime(ctx)
	tops, topsErr := d.openTops()
	defer tops.close()
	walkers := &walkers{d: d, ctx: ctx, tops: tops}
	defer walkers.end()
	short, first := 0, error(nil)
	for i := range todo {
		t := &todo[i]
		err := context.Cause(ctx)
		if err == nil {
			err = walkers.measure(t)
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

// tops are open directories, -1 for one that is not open.
type tops [topCount]int

// openTops opens the parent directories of all pods.
func (d *Directories) openTops() (t tops, err error) {
	var errs [2]error
	d.at(d.options.KubeletRoot)
	t[ofVolumes], errs[0] = openOnHost(d.options.HostRoot, filepath.Join(d.options.KubeletRoot, "pods"))
	d.at(d.options.PodLogs)
	t[ofLogs], errs[1] = openOnHost(d.options.HostRoot, d.options.PodLogs)
	t[ofHost] = -1
	return t, errors.Join(errs[:]...)
}

func (t tops) close() {
	for _, fd := range t {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// maxLap is the maximum duration of a resumed walk. Older counts are discarded and the walk
// restarts.
const maxLap = 30 * time.Minute

// lap is a walk through a pod's directories over several rounds. Each round resumes where the
// previous one stopped.
type lap struct {
	begun   time.Time
	parts   []part
	links   map[link]struct{}
	nolinks bool
}

// measurePod walks a pod's directories, or resumes the walk. A missing directory has no part:
// its container has not started, or the pod is gone. The error is the first cause of a missing
// part or a lower bound.
func (d *Directories) measurePod(w *walker, tops tops, t *task, at func(dir string)) (m podDirectories, first error) {
	m.tried = time.Now()
	w.start(m.tried.Add(t.time), d.options.Entries)
	w.others = t.others
	before, now := t.lap, &lap{begun: m.tried}
	if before != nil && m.tried.Sub(before.begun) <= maxLap {
		now.begun, w.nolinks = before.begun, before.nolinks
		maps.Copy(w.links, before.links)
	} else {
		before = &lap{}
	}
	unfinished := false
	for i := range t.where {
		l := &t.where[i]
		known := findPart(before.parts, l.place)
		if known != nil && !known.pending {
			now.parts = append(now.parts, *known)
			continue
		}
		if tops[l.top] < 0 {
			continue // reported once for all pods
		}
		dir := d.path(l)
		at(dir)
		w.onHost = l.top == ofHost
		p, err := w.part(tops[l.top], l, known)
		if errnoOf(err) == unix.ENOENT {
			continue
		}
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", dir, err))
		}
		unfinished = unfinished || p.pending
		now.parts = append(now.parts, p)
	}
	m.parts = slices.Clone(now.parts)
	if unfinished {
		now.links, now.nolinks = w.linksToResume()
		m.lap = now
	}
	return m, first
}

// path returns the path of a location on the host.
func (d *Directories) path(l *location) string {
	return filepath.Join([topCount]string{filepath.Join(d.options.KubeletRoot, "pods"), d.options.PodLogs, "/"}[l.top], l.path)
}

// part counts one directory, or resumes at the position in known.
func (w *walker) part(top int, l *location, known *part) (part, error) {
	var from *progress
	if known != nil {
		from = known.next
	}
	p := part{place: l.place, at: time.Now()}
	var err error
	p.next, err = w.tree(top, l.path, from)
	p.pending = w.stopped != nil
	p.unreadable = err != nil && !p.pending
	if err = cmp.Or(err, w.cut); err != nil {
		p.short = err.Error()
	}
	if p.uncountable = w.cut == errDepth || w.cut == errLinks; p.uncountable {
		p.short = w.cut.Error()
	}
	p.bytes, p.inodes = signals.Bytes(w.bytes), signals.Inodes(w.inodes)
	return p, err
}

func (d *Directories) at(where string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.where = where
}

// publish replaces the measurement of a pod. For a part that was cut short, the previous one
// stays in use if it is larger and current. A part that could not be read is omitted. An
// exceeded bound counts as exceeded until a walk is complete.
func (d *Directories) publish(uid string, m podDirectories) {
	d.mu.Lock()
	defer d.mu.Unlock()
	into := d.pods
	if isOnHost(uid) {
		into = d.host
	}
	old := into[uid]
	for i := range m.parts {
		p := &m.parts[i]
		was := findPart(old.parts, p.place)
		if p.short == "" || was == nil || !d.counts(was.at, p.at) {
			continue
		}
		short, uncountable := p.short, p.uncountable
		if was.uncountable && p.pending {
			short, uncountable = was.short, true
		}
		if was.inodes > 0 && was.bytes >= p.bytes {
			*p = *was
		}
		if uncountable {
			p.short, p.uncountable = short, true
		}
	}
	m.parts = slices.DeleteFunc(m.parts, func(p part) bool { return p.unreadable && p.inodes == 0 })
	into[uid] = m
}

func findPart(parts []part, at place) *part {
	for i := range parts {
		if parts[i].place == at {
			return &parts[i]
		}
	}
	return nil
}

// forget drops pods and directories that were not requested for [DirectoryOptions.MaxAge]: pods have
// ended.
func (d *Directories) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, all := range []map[string]podDirectories{d.pods, d.host} {
		maps.DeleteFunc(all, func(_ string, m podDirectories) bool { return !d.counts(m.tried, now) })
	}
}
