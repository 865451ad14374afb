package app

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/oomkill"
)

// Bounds of the reports. Beyond them, kills are counted into the next report about the same pod,
// container and limit.
const (
	linesAtOnce   = 100
	repeatedLines = linesAtOnce / 2 // about a container with a line in the last containerPace
	linePace      = time.Second
	eventsAtOnce  = 25
	eventPace     = 10 * time.Second
	// A pod with a kill each second must not displace the decisions of weeks that are stored on the node. Lines that are
	// not stored are counted into the next one.
	storedAtOnce = 2 * linesAtOnce
	storedPace   = time.Minute
	// containerPace is also the minimum time between two events about a container.
	containerPace = time.Minute
)

// oomReports reports OOM kills of the kernel by the decision log, metrics, and events of pods. Its
// methods are safe for concurrent use.
type oomReports struct {
	lines    *decisionlog.Lines
	metrics  *metrics.Metrics
	mayWrite func() bool        // whether events may be written
	events   *nodestatus.Events // nil without an API server
	beside   *besideLines       // to be stored on the node

	mu         sync.Mutex
	line       oomkill.Pace
	stored     oomkill.Pace
	event      oomkill.Pace
	unreadable string // why the log cannot be read; empty: it can
}

func newOOMReports(lines *decisionlog.Lines, m *metrics.Metrics, mayWrite func() bool) *oomReports {
	return &oomReports{lines: lines, metrics: m, mayWrite: mayWrite,
		line:   oomkill.Pace{Burst: linesAtOnce, Refill: linePace, Repeats: repeatedLines, PerKey: containerPace},
		stored: oomkill.Pace{Burst: storedAtOnce, Refill: storedPace, Repeats: storedAtOnce / 2, PerKey: containerPace},
		event:  oomkill.Pace{Burst: eventsAtOnce, Refill: eventPace, PerKey: containerPace}}
}

// report reports a kill of a number of processes.
func (o *oomReports) report(r *oomkill.Report, kills int, at time.Time) {
	o.metrics.OOMKilled(r.Place.Level.String(), kills)
	o.mu.Lock()
	defer o.mu.Unlock()
	key := r.Place.UID + " " + r.Place.Container + " " + r.Place.Level.String()
	if total, admitted := o.line.Admit(key, kills, at); admitted {
		o.write(key, oomLine(r, total, at))
	}
	pod := r.Place.Pod
	if pod == nil || !pod.FromAPI || o.events == nil || !o.mayWrite() {
		return
	}
	if total, admitted := o.event.Admit(key, kills, at); admitted {
		o.events.OOMKilled(nodestatus.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, r.Message(), total)
	}
}

// write writes a line of the decision log, and stores it on the node.
func (o *oomReports) write(key string, line *agent.OOMKill) {
	o.lines.JSON(line)
	if kills, admitted := o.stored.Admit(key, line.Kills, line.Time); admitted {
		line.Kills = kills
		o.beside.add(line, line.Time)
	}
}

// setUnreadable sets why the log cannot be read.
func (o *oomReports) setUnreadable(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unreadable = err.Error()
}

// reportLost reports kills that only the kernel's counter shows.
func (o *oomReports) reportLost(missing uint64, at time.Time) {
	kills := int(min(missing, 1<<20))
	o.metrics.OOMKilled(oomkill.UnknownLevel.String(), kills)
	o.mu.Lock()
	defer o.mu.Unlock()
	if total, admitted := o.line.Admit("", kills, at); admitted {
		why := cmp.Or(o.unreadable, "lines of the kernel's log were lost")
		o.write("", &agent.OOMKill{Time: at, Decision: agent.OOMKilled, Reason: fmt.Sprintf("the kernel counted %d OOM-killed processes without a known pod: %s", total, why),
			Pod: unknownName, LimitOf: oomkill.UnknownLevel.String(), HeldMost: unknownName, GrewMost: unknownName, Kills: total})
	}
}

// unknownName stands for a name that is not known.
const unknownName = "unknown"

// oomLine returns the line of the decision log. A pod can give its cgroups names with control and bidirectional
// characters, which JSON does not escape and a terminal interprets.
func oomLine(r *oomkill.Report, kills int, at time.Time) *agent.OOMKill {
	p, k := &r.Place, &r.Kill
	line := &agent.OOMKill{
		Time: at, Decision: agent.OOMKilled, Reason: r.Reason(), UID: p.UID, Container: p.Container,
		Process: k.Process.Name, PID: k.Process.PID, Cgroup: signals.Printable(p.Cgroup),
		LimitOf: p.Level.String(), LimitCgroup: signals.Printable(p.Limit), LimitBytes: bytesOf(k.Limit), FilesInMemory: bytesOf(k.FilesInMemory),
		HeldMost: r.HeldMost.Key(), GrewMost: r.GrewMost.Key(), Kills: kills,
	}
	switch {
	case p.Pod != nil:
		line.Pod = p.Pod.Key()
	case !p.Outside():
		line.Pod = unknownName
	}
	if r.HeldMost.Known && r.HeldMost.Bytes > 0 {
		line.HeldBytes = bytesOf(signals.Of(r.HeldMost.Bytes))
	}
	if r.GrewMost.Known && r.Window > 0 {
		line.GrewBy = bytesOf(signals.Of(r.GrewMost.Bytes))
		millis := r.Window.Milliseconds()
		line.GrewOver = &millis
	}
	return line
}

func bytesOf(m signals.Measured[signals.Bytes]) *int64 {
	if !m.Known {
		return nil
	}
	n := int64(m.Value)
	return &n
}
