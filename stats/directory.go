package stats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// DirectoryOptions say where pods keep files, and how much looking at them may
// cost. Times and numbers that are 0 have the defaults named here.
type DirectoryOptions struct {
	// HostRoot is where the host's root directory is seen: "/" if empty. All
	// other paths are the host's.
	HostRoot string
	// KubeletRoot holds pods/<uid>/volumes: "/var/lib/kubelet" if empty.
	KubeletRoot string
	// PodLogs holds <namespace>_<name>_<uid>/<container>: "/var/log/pods" if
	// empty.
	PodLogs string
	// Layers asks the container runtime what running containers use. Nil leaves
	// writable layers unknown.
	Layers func(context.Context) ([]cri.ContainerStats, error)

	PodTime   time.Duration // for one pod: 5 s
	RoundTime time.Duration // for all of them: 20 s
	Entries   int           // of one pod: 2,000,000
	// KeepFor is for how long a measurement counts: 5 minutes.
	KeepFor time.Duration
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
	}{{&o.PodTime, 5 * time.Second}, {&o.RoundTime, 20 * time.Second}, {&o.KeepFor, 5 * time.Minute}} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	if o.Entries <= 0 {
		o.Entries = 2_000_000
	}
}

// Directories measures what pods keep on disks. Measuring takes as long as it
// takes to look at every file, so it is done beside the agent's loop, which
// only ever asks for the last results. It is safe for concurrent use.
//
// A measurement that was cut short, by time, by number or by a fault, is a
// lower bound. It is used as such: in a ranking the alternative is 0, by which
// a pod with more files than can be counted would never be found; and above a
// limit it is above it for sure. A walk that was cut short by time or number goes on
// in the next round; what is removed between two rounds counts until the walk begins
// anew. The usage says where it is incomplete, and why. Where the last measurement of the same
// directory says more and is not older than [DirectoryOptions.KeepFor], that
// one is kept, with its time.
type Directories struct {
	options DirectoryOptions
	turn    chan struct{} // who puts something in it may walk; there is one walk at a time

	mu      sync.Mutex
	pods    map[string]podDirectories // by UID
	hanging map[string]*walking       // walks that were given up, by the pod's UID
	layers  layers
	where   string    // what the round under way waits for, should it hang
	due     time.Time // when it should have ended
}

// podDirectories are what one pod keeps in its directories.
type podDirectories struct {
	tried time.Time // when the last walk began
	parts []part
	lap   *lap // that goes on in the next round, nil for none
}

// A part is what one directory holds.
type part struct {
	place
	at      time.Time // when its measurement began, or went on
	bytes   signals.Bytes
	inodes  signals.Inodes
	short   string    // why it is a lower bound, empty if it is not
	pending bool      // the next round goes on with it
	next    *progress // where; nil: from its beginning
	unseen  bool      // it could not be looked at
	beyond  bool      // some of it lies beyond a bound: no round counts that
}

// OpenDirectories prepares to measure; it opens nothing.
func OpenDirectories(o DirectoryOptions) *Directories {
	o.fill()
	return &Directories{options: o, turn: make(chan struct{}, 1), pods: map[string]podDirectories{}, hanging: map[string]*walking{}}
}

// endWait is how long a walk may take to notice that its time is over.
const endWait = 250 * time.Millisecond

// Measure measures the pods, those first whose last measurement is oldest. It
// ends with ctx or after [DirectoryOptions.RoundTime], whichever is first; pods
// that were finished until then have their results. One round runs at a time,
// others wait for it. A pod's walk that hangs is given up, alone on its thread, and
// the round goes on with the next pod. If the directories that hold those of all pods
// hang, all rounds are errors until they come back.
//
// The error says how many pods were not measured completely, and why the first
// of them was not.
func (d *Directories) Measure(ctx context.Context, pods []signals.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.RoundTime)
	defer cancel()
	if err := d.take(ctx); err != nil {
		return err
	}
	todo := d.plan(pods)
	done := make(chan error, 1)
	go func() {
		defer func() { <-d.turn }()
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
	case <-time.After(endWait):
		return d.hangs()
	}
}

// take waits for its turn, but not behind a walk that hangs.
func (d *Directories) take(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
	default:
		if d.overdue() {
			return d.hangs()
		}
		select {
		case d.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("measure the directories of pods: another round is under way: %w", context.Cause(ctx))
		}
	}
	due, _ := ctx.Deadline()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = due.Add(endWait)
	return nil
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

// Age is how old the measurement of the pod's directories is, that of its oldest
// part; ok is false for a pod of which nothing is known that still counts.
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

// counts reports whether what was measured then still counts.
func (d *Directories) counts(at, now time.Time) bool { return now.Sub(at) <= d.options.KeepFor }
