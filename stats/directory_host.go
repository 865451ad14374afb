package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Directories of the host count as the usage of no pod. They are measured only to explain what holds a
// disk, on the thread of the rounds for pods and with its bounds. A round for pods precedes: it ends
// the current walk, which resumes later.

// Bounds of a measurement of directories of the host.
const (
	// maxNewHanging is the number of directories that may begin to hang in one measurement. Each
	// costs the time of its search.
	maxNewHanging = 4
	// hostPause is the interval in which the end of rounds for pods is checked.
	hostPause = 10 * time.Millisecond
)

// found is a file or directory of the host.
type found struct {
	path     string // without symbolic links, relative to the root of the host
	identity identity
	link     link
	// partial: the agent sees only some directories of the host, as in a container. The directories
	// above these are those of the container.
	partial     bool
	inContainer bool
}

// hostUsage is the measured usage of a file or directory of the host.
type hostUsage struct {
	found
	known  bool // bytes and inodes were measured
	same   int  // index of an earlier path of the same directory; -1 for none
	bytes  signals.Bytes
	inodes signals.Inodes
	short  string // why the usage is a lower bound, or empty
	failed error  // the fault of the last walk, nil for none
	err    error  // why the usage is not known
}

var (
	errOtherFilesystem = errors.New("it is on another filesystem")
	errNotVisible      = fmt.Errorf("it is a directory of the agent's container: %w", fs.ErrNotExist)
	errNoFile          = errors.New("it is neither a directory nor a file")
	errExcluded        = errors.New("it is in a directory of pods or images")
	errUnknownContent  = errors.New("a directory in it that is measured on its own has not answered")
	errNotReached      = errors.New("the time for directories of the host was over before")
)

// measureHost measures the paths of the host that are on a filesystem. The least recently measured
// ones come first, else the order is that of the paths. Neither other paths nor the excluded
// directories count in a path that contains them. The results are in the order of the paths. It
// returns at the end of ctx or after [DirectoryOptions.HostRoundTime], whichever is first.
func (d *Directories) measureHost(ctx context.Context, on identity, paths, excluded []string) []hostUsage {
	ctx, cancel := context.WithTimeout(ctx, d.options.HostRoundTime)
	defer cancel()
	h := &hostRound{d: d, on: on, all: make([]hostUsage, len(paths)), others: map[link]struct{}{}, first: map[link]int{}}
	var jobs []func(*walkers)
	for _, path := range excluded {
		jobs = append(jobs, func(w *walkers) { h.exclude(w, path) })
	}
	for i, path := range paths {
		h.all[i] = hostUsage{same: -1, err: errNotReached}
		jobs = append(jobs, func(w *walkers) { h.search(w, i, path) })
	}
	h.do(ctx, jobs)
	jobs = jobs[:0]
	for _, i := range h.order() {
		jobs = append(jobs, func(w *walkers) { h.walk(w, i) })
	}
	h.do(ctx, jobs)
	for i := range h.all {
		h.result(&h.all[i])
	}
	return h.all
}

// hostRound is one measurement of directories of the host.
type hostRound struct {
	d      *Directories
	on     identity
	all    []hostUsage
	others map[link]struct{} // directories that no walk enters
	first  map[link]int      // index of the first path of each directory
	hang   int               // number of searches that began to hang

	excluded []string // directories that no walk enters, without symbolic links
	lost     []string // those of them that could not be found
}

// do executes the jobs in order, between rounds for pods. A job that such a round has ended is repeated.
func (h *hostRound) do(ctx context.Context, jobs []func(*walkers)) {
	for len(jobs) > 0 && ctx.Err() == nil {
		session, end, err := h.d.acquireBeside(ctx)
		if err != nil {
			return
		}
		w := &walkers{d: h.d, ctx: session, tops: tops{-1, -1, -1}}
		if w.tops[ofHost], err = openOnHost(h.d.options.HostRoot, "/"); err == nil {
			for len(jobs) > 0 && session.Err() == nil {
				if jobs[0](w); session.Err() == nil {
					jobs = jobs[1:]
				}
			}
			w.end()
		}
		w.tops.close()
		if end(); err != nil {
			return
		}
	}
}

// acquireBeside acquires the semaphore while no round for pods waits for it. The session ends when one
// begins to wait.
func (d *Directories) acquireBeside(ctx context.Context) (session context.Context, end func(), err error) {
	for {
		select {
		case d.semaphore <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		if session, end, ok := d.beginSession(ctx); ok {
			return session, end, nil
		}
		<-d.semaphore
		select {
		case <-time.After(hostPause):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// beginSession begins a session with the semaphore acquired, unless a round for pods waits for it.
func (d *Directories) beginSession(ctx context.Context) (session context.Context, end func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting > 0 {
		return nil, nil, false
	}
	session, cancel := context.WithCancel(ctx)
	due, _ := ctx.Deadline()
	d.preempt, d.due = cancel, due.Add(d.endWait)
	return session, func() {
		d.mu.Lock()
		d.preempt = nil
		d.mu.Unlock()
		cancel()
		<-d.semaphore
	}, true
}

// exclude finds a directory that no walk enters. One that does not answer could be entered by another
// path.
func (h *hostRound) exclude(w *walkers, path string) {
	r, err := w.run(path, h.d.options.HostTime, walk{search: path})
	switch err = cmp.Or(err, r.err); {
	case err == nil:
		h.others[r.found.link] = struct{}{}
		h.excluded = append(h.excluded, r.found.key())
	case !errors.Is(err, fs.ErrNotExist) && w.ctx.Err() == nil: // else it is repeated
		h.lost = append(h.lost, path)
	}
}

// excludes returns why a found path may not be walked; nil if it may. A path without symbolic links
// that contains an excluded directory is walked without it.
func (h *hostRound) excludes(path string, f *found) error {
	at := f.key()
	switch {
	case at == "/", slices.ContainsFunc(h.excluded, func(dir string) bool { return isBelow(at, dir) }):
		return errExcluded
	case slices.ContainsFunc(h.lost, func(dir string) bool { return isBelow(dir, at) || isBelow(dir, path) || isBelow(at, dir) }):
		return errUnknownContent
	}
	return nil
}

// search finds a path of the host.
func (h *hostRound) search(w *walkers, i int, path string) {
	u := &h.all[i]
	waits := h.d.mayWalk(path) != nil
	if !waits && h.hang == maxNewHanging {
		return
	}
	r, err := w.run(path, h.d.options.HostTime, walk{search: path})
	if u.found, u.err = r.found, err; err == nil {
		u.err = r.err
	} else if !waits {
		h.hang++
	}
	if u.err == nil && u.identity != h.on {
		u.err = errOtherFilesystem
		if u.inContainer {
			u.err = errNotVisible
		}
	}
	if u.err == nil {
		u.err = h.excludes(path, &u.found)
	}
	if u.err != nil {
		return
	}
	if first, known := h.first[u.link]; known && first != i {
		u.same = first
		return
	}
	h.first[u.link], h.others[u.link] = i, struct{}{}
}

// order returns the indexes of the directories to walk, the least recently measured first.
func (h *hostRound) order() (indexes []int) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	for i := range h.all {
		if u := &h.all[i]; u.err == nil && u.same < 0 {
			indexes = append(indexes, i)
		}
	}
	slices.SortStableFunc(indexes, func(a, b int) int {
		return h.d.host[h.all[a].key()].tried.Compare(h.d.host[h.all[b].key()].tried)
	})
	return indexes
}

// key is the key of a measurement, see isOnHost.
func (f *found) key() string { return "/" + f.path }

// walk measures a directory, or resumes its measurement.
func (h *hostRound) walk(w *walkers, i int) {
	u := &h.all[i]
	h.d.mu.Lock()
	known := h.d.host[u.key()]
	h.d.mu.Unlock()
	t := task{uid: u.key(), key: u.key(), where: []location{{place{}, ofHost, u.path}}, tried: known.tried, time: h.d.options.HostTime, lap: known.lap, others: h.others}
	u.failed = w.measure(&t)
}

// result sets the last measurement of a directory, which may be one of an earlier round.
func (h *hostRound) result(u *hostUsage) {
	if u.err != nil || u.same >= 0 {
		return
	}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	u.err = cmp.Or(u.failed, errNotReached)
	now := time.Now()
	for _, p := range h.d.host[u.key()].parts {
		if !h.d.counts(p.at, now) {
			continue
		}
		if p.inodes == 0 && p.short != "" {
			u.err = errors.New(p.short)
			continue
		}
		u.err, u.known, u.bytes, u.inodes, u.short = nil, true, p.bytes, p.inodes, p.short
	}
}

// find finds a path of the host, through symbolic links. It opens no file for reading.
func (d *Directories) find(path string) (f found, err error) {
	root, err := openHostFile(d.options.HostRoot, "/", unix.O_PATH)
	if err != nil {
		return f, err
	}
	defer unix.Close(root) //nolint:errcheck // nothing was written
	var top unix.Statx_t
	if err := unix.Statx(root, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &top); err != nil {
		return f, fmt.Errorf("stat the root of the host: %w", err)
	}
	f.partial = d.options.HostRoot != "" && d.options.HostRoot != "/" && top.Attributes_mask&^top.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	fd, err := openHostFile(d.options.HostRoot, path, unix.O_PATH)
	if err != nil {
		return f, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return f, fmt.Errorf("stat %s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return f, errNoFile
	}
	major, minor := unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)) //nolint:unconvert // it is 32 bits wide on some processors
	f.link = link{device{major, minor}, st.Ino}
	f.inContainer = f.partial && f.link.device == device{top.Dev_major, top.Dev_minor}
	if f.path, err = pathBelow(root, fd); err != nil {
		return f, fmt.Errorf("resolve %s: %w", path, err)
	}
	f.identity, err = d.identify(fd, &st, f.path)
	return f, err
}

// identify returns the identity of the filesystem of a file that is open with O_PATH. A btrfs has to be
// asked through a directory that is open for reading.
func (d *Directories) identify(fd int, st *unix.Stat_t, path string) (identity, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return identity{}, fmt.Errorf("statfs /%s: %w", path, err)
	}
	if int64(fs.Type) != unix.BTRFS_SUPER_MAGIC {
		return identityOf(fd, st, &fs)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		path = filepath.Dir(path)
	}
	dir, err := openOnHost(d.options.HostRoot, "/"+path)
	if err != nil {
		return identity{}, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	return identityOf(dir, st, &fs)
}

// pathBelow returns the path of an open file relative to the open root of the host.
func pathBelow(root, fd int) (string, error) {
	var paths [2]string
	for i, of := range [...]int{root, fd} {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", of), buf)
		if err != nil {
			return "", err
		}
		paths[i] = string(buf[:n])
	}
	relative, below := strings.CutPrefix(paths[1], strings.TrimSuffix(paths[0], "/")+"/")
	if !below {
		return "", errors.New("it is not below the root of the host")
	}
	return relative, nil
}
