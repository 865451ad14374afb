package app

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kmsg"
	"plimsoll.dev/plimsoll/internal/oomkill"
	"plimsoll.dev/plimsoll/stats"
)

const (
	// settleTime is the time from the reading after a kill until the kill is reported. Until then further
	// processes of the same kill are added.
	settleTime = 200 * time.Millisecond
	// readingPace is the minimum time between two readings of the pods' memory. A longer one is readingShare
	// times the duration of the last: a pod at its limit determines how often it is killed.
	readingPace  = 50 * time.Millisecond
	readingShare = 10
	// freeingTime bounds the time in which an earlier kill still frees memory.
	freeingTime = 2 * time.Second
	// logDelay bounds the time from a line of the kernel until it is read here, beyond that of other lines.
	logDelay = 50 * time.Millisecond
	// maxPendingKills and maxRecentKills bound the stored kills.
	maxPendingKills = 256
	maxRecentKills  = 256
)

// pageSize is the size of the pages in the kernel's log.
var pageSize = signals.Bytes(os.Getpagesize())

// An oomWatcher explains the kernel's OOM kills. It runs beside the loop, on a goroutine of its own.
type oomWatcher struct {
	node      func() oomkill.Node
	read      func() signals.Holdings
	capacity  signals.Measured[signals.Bytes] // of the machine
	report    func(*oomkill.Report, int, time.Time)
	history   *heldHistory
	countsAll bool          // the kernel's counter counts the whole machine
	seen      atomic.Uint64 // killed processes that the counter has, too

	log      oomkill.Log
	clock    oomkill.Clock
	last     time.Duration // time of the last record, by the clock of the log
	lost     bool          // records after it were lost
	pending  []pendingKill
	recent   []recentKill // reported ones, those of other nodes, and lost lines
	nextRead time.Time
}

// pendingKill is a kill to be reported.
type pendingKill struct {
	oomkill.Kill
	place oomkill.Place
	at    time.Time // at which its line was written
	due   time.Time // it is reported once all lines until then are read
	after *signals.Holdings
	until time.Duration   // end of that reading at the latest, by the clock of the log
	pids  []int           // of all its processes
	freed signals.Bytes   // by the largest of them in the container of the first one
	rest  []oomkill.Place // of those in other containers
}

// recentKill is another kill, which may have freed memory meanwhile.
type recentKill struct {
	place oomkill.Place
	at    time.Duration // by the clock of the log
}

// recordSource is the kernel's log. Next returns a record that can be read even after its deadline.
type recordSource interface {
	Next(deadline time.Time) ([]byte, error)
}

// watch reads the log until it is closed. Returns the error that ended it.
func (w *oomWatcher) watch(log recordSource) error {
	for {
		var deadline time.Time
		if len(w.pending) > 0 {
			deadline = w.pending[0].due
		}
		record, err := log.Next(deadline)
		switch {
		case err == nil:
			if r, ok := oomkill.ParseRecord(string(record)); ok {
				w.add(r, time.Now())
			}
		case errors.Is(err, kmsg.ErrLost):
			w.lose()
		case errors.Is(err, kmsg.ErrTimeout):
			w.conclude(time.Now())
		default:
			w.flush()
			return err
		}
	}
}

// add adds a record of the log that was read now.
func (w *oomWatcher) add(r oomkill.Record, now time.Time) {
	written := w.clock.Written(r.At, now)
	w.conclude(written)
	if w.last = r.At; w.lost { // a kill at the end of the gap
		w.lost = false
		w.remember(oomkill.Place{}, r.At)
	}
	k, killed := w.log.Add(r)
	if !killed {
		return
	}
	node := w.node()
	place, ours := node.Locate(&k)
	if w.countsAll || k.TaskCgroup == "" || ours && place.UID != "" {
		w.seen.Add(1)
	}
	if !ours {
		w.remember(oomkill.Place{Cgroup: k.TaskCgroup}, k.At)
		return
	}
	if k.Group && w.join(&k, &place) {
		return
	}
	p := pendingKill{Kill: k, place: place, at: written, freed: k.Process.Anon}
	if k.Process.PID != 0 {
		p.pids = []int{k.Process.PID}
	}
	p.after = w.readAfter(&place)
	ended := time.Now()
	p.due, p.until = ended.Add(settleTime), k.At+ended.Sub(written)+logDelay
	if w.pending = append(w.pending, p); len(w.pending) >= maxPendingKills {
		w.flush()
	}
}

// lose notes that records were lost: there may have been any kill.
func (w *oomWatcher) lose() {
	w.log.Lose()
	w.lost = true
	w.remember(oomkill.Place{}, w.last)
}

// join adds a process to the kill that also ended it, by memory.oom.group. The kernel may write the line
// about the first process again.
func (w *oomWatcher) join(k *oomkill.Kill, place *oomkill.Place) bool {
	if len(w.pending) == 0 {
		return false
	}
	p := &w.pending[len(w.pending)-1]
	switch {
	case p.LimitCgroup != k.LimitCgroup || p.place.UID != place.UID:
		return false
	case slices.Contains(p.pids, k.Process.PID):
		return true
	case p.place.ID == place.ID:
		p.freed = max(p.freed, k.Process.Anon)
	default:
		p.rest = append(p.rest, *place)
	}
	p.pids = append(p.pids, k.Process.PID)
	return true
}

// readAfter reads the memory below the limit that was met, right after a kill. The result is nil if no
// reading is needed, or if the last one is too recent.
func (w *oomWatcher) readAfter(place *oomkill.Place) *signals.Holdings {
	begun := time.Now()
	if place.Level == oomkill.UnknownLevel || place.Level == oomkill.ContainerLevel || begun.Before(w.nextRead) {
		return nil
	}
	reading := w.read()
	ended := time.Now()
	w.nextRead = ended.Add(max(readingPace, readingShare*ended.Sub(begun)))
	return &reading
}

// conclude explains and reports the kills that are due, once all records until a time are read.
func (w *oomWatcher) conclude(until time.Time) {
	n := 0
	for n < len(w.pending) && !w.pending[n].due.After(until) {
		n++
	}
	w.finish(n)
}

// flush reports all kills before they are due. Records about further kills may follow, so that the readings
// after these kills explain nothing.
func (w *oomWatcher) flush() {
	for i := range w.pending {
		w.pending[i].after = nil
	}
	w.finish(len(w.pending))
}

// finish explains and reports the first pending kills.
func (w *oomWatcher) finish(n int) {
	if n == 0 {
		return
	}
	node := w.node()
	for i := range n {
		p := &w.pending[i]
		e := oomkill.Evidence{At: p.at, After: p.after, Capacity: w.capacity, PageSize: pageSize, Freed: p.freed, Others: w.others(i)}
		var report oomkill.Report
		w.history.use(func(h *oomkill.History) {
			e.Before = h.Before(p.at)
			report = oomkill.Explain(&node, &p.Kill, &p.place, &e)
		})
		w.report(&report, max(len(p.pids), 1), p.at)
	}
	for i := range n {
		p := &w.pending[i]
		for _, place := range append(p.rest, p.place) {
			w.remember(place, p.At)
		}
		if p.after != nil { // only now: for these kills it is no reading before them
			w.history.use(func(h *oomkill.History) { h.Note(p.after) })
		}
	}
	w.pending = slices.Delete(w.pending, 0, n)
}

// others returns further kills: those until the reading after a kill, and those before it, the memory of
// which may not have been free then.
func (w *oomWatcher) others(of int) []oomkill.Place {
	p := &w.pending[of]
	found := slices.Clone(p.rest)
	add := func(place oomkill.Place, at time.Duration) {
		if at > p.At-freeingTime && at < p.until {
			found = append(found, place)
		}
	}
	for i := range w.pending {
		if other := &w.pending[i]; i != of {
			for _, place := range append(slices.Clone(other.rest), other.place) {
				add(place, other.At)
			}
		}
	}
	for _, r := range w.recent {
		add(r.place, r.at)
	}
	return found
}

// remember stores a kill that may have freed memory, until the kills of that time are reported.
func (w *oomWatcher) remember(p oomkill.Place, at time.Duration) {
	w.recent = slices.DeleteFunc(w.recent, func(r recentKill) bool { return at-r.at >= 2*freeingTime })
	if len(w.recent) >= maxRecentKills {
		w.recent, p = w.recent[:0], oomkill.Place{} // an unknown place stands for all of them
	}
	w.recent = append(w.recent, recentKill{p, at})
}

// heldHistory is the history of what pods held, shared by the loop and the watcher. Neither waits for it
// while memory is short: the loop drops a reading instead.
type heldHistory struct {
	mu      sync.Mutex
	history oomkill.History
	reading signals.Holdings // of the loop
}

func (h *heldHistory) use(do func(*oomkill.History)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do(&h.history)
}

// note stores what pods held at a measurement that has begun at a time and ends now, unless the history is in
// use or the measurement took too long to be dated. It does not allocate once it has grown.
func (h *heldHistory) note(measured *stats.Pods, pods []signals.Pod, begun time.Time) {
	if h == nil || time.Since(begun) > oomkill.MaxReadingTime || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	h.reading.At, h.reading.Pods = begun, measured.Holdings(pods, h.reading.Pods)
	h.history.Note(&h.reading)
}

// watchOOMKills explains the kernel's OOM kills by its log until ctx ends.
func (a *app) watchOOMKills(ctx context.Context, w *oomWatcher, log *kmsg.Log) {
	stop := context.AfterFunc(ctx, func() { _ = log.Close() })
	err := w.watch(log)
	if stop() { // it was not closed
		_ = log.Close()
		a.reporter.oomKills.setUnreadable(err)
		a.log.Error("Failed to read the kernel's log, counting OOM kills only", "error", err)
	}
}

// counterPeriod is the interval between comparisons of the log with the kernel's counter.
const counterPeriod = 10 * time.Second

// countOOMKills reports kills that the kernel has counted and the log has not shown, until ctx ends.
func (a *app) countOOMKills(ctx context.Context, seen *atomic.Uint64, count func() (uint64, error)) {
	var lost lostKills
	repeat(ctx, counterPeriod, func() bool {
		counted, err := count()
		if err != nil {
			return true // no pods yet, or no such counter
		}
		if missing := lost.missing(counted, seen.Load()); missing > 0 {
			a.reporter.oomKills.reportLost(missing, time.Now())
		}
		return true
	})
}

// lostKills compares the kernel's count of kills with those in its log. The zero value has no count yet.
type lostKills struct {
	began           bool
	counted, seen   uint64 // at the start
	previous        uint64 // count of the previous comparison
	alreadyReturned uint64
}

// missing returns the kills that are missing in the log and were not returned before. The kernel counts
// a kill before it writes the line, so the previous count is compared.
func (l *lostKills) missing(counted, seen uint64) (missing uint64) {
	if !l.began || counted < l.previous { // the pods' cgroup is another one
		*l = lostKills{began: true, counted: counted, seen: seen, previous: counted}
		return 0
	}
	if all, known := l.previous-l.counted, seen-l.seen+l.alreadyReturned; all > known {
		missing = all - known
		l.alreadyReturned += missing
	}
	l.previous = counted
	return missing
}

// openOOMKills starts to report the kernel's OOM kills. Where its log cannot be read, they are counted only.
func (a *app) openOOMKills(ctx context.Context) {
	n := a.node
	newReader := func() *stats.HeldReader {
		return stats.NewHeldReader(n.hierarchy, n.places, a.config.NodeCgroup, a.config.ProcRoot)
	}
	capacity, err := stats.MachineMemory(a.config.ProcRoot)
	w := &oomWatcher{
		node: func() oomkill.Node {
			return oomkill.Node{Cgroup: a.config.NodeCgroup, Root: n.places.Root(), Pods: n.pods()}
		},
		read: newReader().Read, capacity: signals.Measured[signals.Bytes]{Value: capacity, Known: err == nil},
		report: a.reporter.oomKills.report, history: &heldHistory{}, countsAll: n.hierarchy.Version == cgroup.V1,
	}
	if log, err := kmsg.Open(kmsg.Device); err != nil {
		a.reporter.oomKills.setUnreadable(err)
		a.log.Info("Cannot explain OOM kills of the kernel, counting them only", "reason", err)
	} else {
		a.log.Info("Reading the kernel's log to explain OOM kills", "path", kmsg.Device)
		n.history = w.history
		a.group.Go(func() { a.watchOOMKills(ctx, w, log) })
	}
	counter, isMachine := newReader(), n.stats.IsMachine()
	a.group.Go(func() { a.countOOMKills(ctx, &w.seen, func() (uint64, error) { return counter.OOMKills(isMachine) }) })
}
