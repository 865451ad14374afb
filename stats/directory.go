package stats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// DirectoryOptions configure where pods store files, and the cost of measuring them. Durations
// and numbers that are 0 have the defaults named here.
type DirectoryOptions struct {
	// HostRoot is the path of the host's root directory, "/" if empty. All other paths are
	// relative to the host's root.
	HostRoot string
	// KubeletRoot contains pods/<uid>/volumes: "/var/lib/kubelet" if empty.
	KubeletRoot string
	// PodLogs contains <namespace>_<name>_<uid>/<container>: "/var/log/pods" if empty.
	PodLogs string
	// Layers returns the container runtime's usage of containers. If it is nil, writable layers are
	// unknown.
	Layers func(context.Context) ([]cri.ContainerStats, error)
	// Containers lists the containers of the runtime, including dead ones. If it is nil, dead
	// containers without a report of their layers are not known.
	Containers func(context.Context) ([]cri.Container, error)

	PodTime   time.Duration // for one pod; default 5 s
	RoundTime time.Duration // for all pods; default 20 s
	Entries   int           // per pod or directory of the host; default 2,000,000
	HostTime  time.Duration // for one directory of the host, or the search for it; default 1 s
	// HostRoundTime is the time for all directories of the host; default 15 s.
	HostRoundTime time.Duration
	// MaxAge is the lifetime of a measurement; default 5 minutes.
	MaxAge time.Duration
}

func (o *DirectoryOptions) fill() {
	for _, text := range []struct {
		at  *string
		def string
	}{{&o.KubeletRoot, "/var/lib/kubelet"}, {&o.PodLogs, "/var/log/pods"}} {
		if *text.at == "" {
			*text.at = text.def
		}
	}
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{{&o.PodTime, 5 * time.Second}, {&o.RoundTime, 20 * time.Second}, {&o.MaxAge, 5 * time.Minute},
		{&o.HostTime, time.Second}, {&o.HostRoundTime, 15 * time.Second}} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	if o.Entries <= 0 {
		o.Entries = 2_000_000
	}
}

// Directories measures the disk usage of pods. A measurement visits every file, so it runs
// beside the agent's loop, which only reads the last results. It is safe for concurrent use.
//
// A measurement that was cut short by time, number or a fault is a lower bound, and is used as
// such. In a ranking the alternative is 0, which would hide every pod with more files than can
// be counted. A lower bound above a limit exceeds it for certain.
//
// A walk cut short by time or number resumes in the next round. Files removed between two
// rounds count until the walk restarts. The usage records where it is incomplete, and why. If
// the previous measurement of the same directory is larger and not older than
// [DirectoryOptions.MaxAge], it stays in use with its own time.
type Directories struct {
	options   DirectoryOptions
	semaphore chan struct{} // one slot: one walk at a time
	yield     func()        // lowers the priority of a thread that walks
	endWait   time.Duration // time that a walk may take to notice its deadline

	mu         sync.Mutex
	pods       map[string]podDirectories // by pod UID
	host       map[string]podDirectories // directories of the host, by path
	idle       []*walking                // threads without a walk
	hanging    map[string]*walking       // abandoned walks, by pod UID or path
	layers     layers
	unanswered unanswered
	dead       deadContainers
	where      string             // the path that the current round waits for
	due        time.Time          // the deadline of the current round
	waiting    int                // rounds for pods that have not begun
	preempt    context.CancelFunc // ends the current walk through directories of the host; nil for none
}

// podDirectories is the disk usage of one pod's directories.
type podDirectories struct {
	tried time.Time // start of the last walk
	parts []part
	lap   *lap // resumes in the next round, nil for none
}

// part is the usage of one directory.
type part struct {
	place
	at          time.Time // start of its measurement, or of the last resumed one
	bytes       signals.Bytes
	inodes      signals.Inodes
	short       string    // why it is a lower bound, or empty
	pending     bool      // resumes in the next round
	next        *progress // the position to resume at; nil for the beginning
	unreadable  bool      // it could not be read
	uncountable bool      // partly beyond a fixed bound, which no round counts
}

// OpenDirectories configures Directories without opening a file.
func OpenDirectories(o DirectoryOptions) *Directories {
	o.fill()
	return &Directories{options: o, semaphore: make(chan struct{}, 1), yield: yield, endWait: defaultEndWait, pods: map[string]podDirectories{}, host: map[string]podDirectories{}, hanging: map[string]*walking{}}
}

const defaultEndWait = 250 * time.Millisecond

// Measure measures the pods, the one with the oldest measurement first. It returns at the end
// of ctx or after [DirectoryOptions.RoundTime], whichever is first; pods finished by then have
// results. One round runs at a time, and other callers wait for it.
//
// A hanging walk of a pod is abandoned on its own thread, and the round continues with the next
// pod. If a parent directory of all pods hangs, every round returns an error until it responds.
//
// Returns an error with the number of pods that were not measured completely, and the cause for
// the first of them.
func (d *Directories) Measure(ctx context.Context, pods []signals.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.RoundTime)
	defer cancel()
	if err := d.acquire(ctx); err != nil {
		return err
	}
	todo := d.plan(pods)
	done := make(chan error, 1)
	go func() {
		defer func() { <-d.semaphore }()
		done <- d.round(ctx, todo)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(d.endWait):
		return d.hangs()
	}
}

// acquire acquires the semaphore for a round. It does not wait behind a hanging walk, and ends the
// walk through a directory of the host.
func (d *Directories) acquire(ctx context.Context) error {
	d.await(1)
	defer d.await(-1)
	select {
	case d.semaphore <- struct{}{}:
	default:
		if d.overdue() {
			return d.hangs()
		}
		select {
		case d.semaphore <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("measure the directories of pods: another round is under way: %w", context.Cause(ctx))
		}
	}
	due, _ := ctx.Deadline()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = due.Add(d.endWait)
	return nil
}

// await changes the number of rounds for pods that have not begun.
func (d *Directories) await(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting += change; d.waiting > 0 && d.preempt != nil {
		d.preempt()
	}
}

func (d *Directories) overdue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().After(d.due)
}

func (d *Directories) hangs() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("measure the directories of pods: %s has not answered in time: the disk or the server behind it may hang, see the kernel's log", d.where)
}

// Age returns the age of the oldest part of the pod's measurement. ok is false for a pod
// without a current measurement.
func (d *Directories) Age(uid string) (age time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, p := range d.pods[uid].parts {
		if d.counts(p.at, now) && p.inodes > 0 {
			age, ok = max(age, now.Sub(p.at)), true
		}
	}
	return age, ok
}

// counts reports whether a measurement of that time is still in use.
func (d *Directories) counts(at, now time.Time) bool { return now.Sub(at) <= d.options.MaxAge }
