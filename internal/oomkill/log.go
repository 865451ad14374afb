package oomkill

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Kill is one process that the kernel's OOM killer ended.
type Kill struct {
	At      time.Duration // by the clock of the log
	Process Process       // zero if the line is unreadable
	// TaskCgroup is the cgroup of the process in the memory controller's tree, from the root of that
	// tree. It is empty if it is unknown, and Cause then has the reason.
	TaskCgroup string
	Cause      string
	// LimitCgroup is the cgroup at its limit, and empty if the memory of the machine was exhausted.
	// Partial: only a part of it was, by a cpuset or a memory policy.
	LimitCgroup string
	Partial     bool
	// Used and Limit are those of LimitCgroup at the kill. Held is the part of Used that is no page
	// cache, and FilesInMemory that in shared memory and in files in memory (tmpfs). The latter mostly
	// outlive a process.
	Used, Limit, Held, FilesInMemory signals.Measured[signals.Bytes]
	// FreePages is the number of pages of the machine that were free or page cache, if PagesKnown.
	FreePages  uint64
	PagesKnown bool
	// Group reports whether the process was killed only because memory.oom.group is set for
	// TaskCgroup, after another one of that cgroup. It may be that other one again.
	Group bool
}

// Causes of an unknown cgroup.
const (
	notLogged   = "the kernel's log has no line about the cgroup, as after ten kills within five seconds"
	notReadable = "the kernel's log has an unknown, truncated or ambiguous line about the process or its cgroup"
	linesLost   = "lines of the kernel's log were lost"
)

// Log assembles kills from the records of the kernel's log. The kernel writes the lines of one OOM kill
// under a lock, so that those of two kills do not mix. The zero value is ready for use.
type Log struct {
	next  uint64 // expected sequence number
	began bool   // next is valid
	lost  bool   // records were lost, and no dump has begun since

	dump dump
	// group is the last kill if all processes of its cgroup are being killed, else nil.
	group *Kill
	last  *Kill // the last kill; nil after a line that begins another one
	// scopes are the times of the last lines about cgroups, and from is the first record that was
	// read since the start or since the last gap.
	scopes [scopeBurst]time.Duration
	count  int
	from   time.Duration
}

// dump is the information that precedes the line about the killed process.
type dump struct {
	scope        string // the line about the cgroups, complete or not
	end          uint64 // sequence number of its last record
	truncated    bool   // a part of it is missing
	used, limit  signals.Measured[signals.Bytes]
	inStatistics bool
	statistics   statistics
	freePages    uint64
	pagesKnown   bool
}

// The kernel writes the line about the cgroups at most scopeBurst times in 5 s. A second more allows for
// its coarse clock.
const (
	scopeBurst  = 10
	scopePeriod = 6 * time.Second
)

// maxScope bounds the length of a line in several records.
const maxScope = 16 << 10

// Add adds the next record, and returns the kill that it completes, if any.
func (l *Log) Add(r Record) (k Kill, killed bool) {
	if l.began && r.Sequence != l.next {
		l.Lose()
	}
	if !l.began {
		l.from = r.At
	}
	l.next, l.began = r.Sequence+1, true
	if !r.Kernel {
		return Kill{}, false
	}
	if r.Continues {
		l.continueScope(&r)
		return Kill{}, false
	}
	line, is, ok := parseKilled(r.Text)
	if is {
		return l.complete(&line, ok && !r.Truncated, r.At), true
	}
	l.note(&r)
	return Kill{}, false
}

// Lose ends everything that is pending: the next record does not follow the last one.
func (l *Log) Lose() {
	l.dump, l.group, l.last, l.lost, l.began = dump{}, nil, nil, true, false
}

// note notes a record that is not about a killed process.
func (l *Log) note(r *Record) {
	switch {
	case strings.HasPrefix(r.Text, scopeHead):
		l.dump.scope, l.dump.end, l.dump.truncated, l.dump.inStatistics = r.Text, r.Sequence, r.Truncated, false
		l.group, l.last = nil, nil
		l.scopes[l.count%scopeBurst] = r.At
		l.count++
	case strings.HasPrefix(r.Text, groupHead) && strings.HasSuffix(r.Text, groupTail) && !r.Truncated:
		path := unescape(strings.TrimSuffix(r.Text[len(groupHead)-1:], groupTail)) // with the slash
		if l.group = l.last; l.group != nil && cgroup.Within(path, l.group.TaskCgroup) {
			l.group.TaskCgroup = path
		} else {
			l.group = nil
		}
	case strings.Contains(r.Text, dumpMark):
		l.dump, l.group, l.last, l.lost = dump{}, nil, nil, false
	case strings.HasPrefix(r.Text, statHead):
		l.dump.inStatistics = true
	case strings.HasPrefix(r.Text, statEnd):
		l.dump.inStatistics = false
	case r.Truncated: // an amount in it may lack digits. An earlier line of version 1 has another amount under its key
		l.dump.statistics, l.dump.inStatistics = statistics{}, false
	case strings.HasPrefix(r.Text, usageHead):
		l.dump.used, l.dump.limit = parseUsage(r.Text)
	case strings.HasPrefix(r.Text, pagesHead):
		if pages, ok := parsePages(r.Text); ok {
			l.dump.freePages, l.dump.pagesKnown = pages, true
		}
	case l.dump.inStatistics:
		l.dump.statistics.add(r.Text)
	}
}

// continueScope appends a record to the line about the cgroups, if it directly follows. Another record may be
// the rest of the line, too. The line is incomplete then, even if it looks complete: a name can end it.
func (l *Log) continueScope(r *Record) {
	switch d := &l.dump; {
	case d.scope == "":
	case d.end+1 != r.Sequence || len(d.scope) >= maxScope:
		d.truncated = true
	default:
		d.scope, d.end, d.truncated = d.scope+r.Text, r.Sequence, d.truncated || r.Truncated
	}
}

// complete returns the kill of a line about a killed process.
func (l *Log) complete(line *killedLine, readable bool, at time.Duration) Kill {
	d, lost := l.dump, l.lost
	l.dump = dump{}
	k := Kill{At: at, Process: line.Process}
	switch s, ok := parseScope(d.scope, line); {
	case !readable:
		k.Process, k.Cause = Process{}, notReadable
	case d.scope != "" && ok && !d.truncated:
		k.TaskCgroup, k.LimitCgroup = s.task, s.limit
		k.Partial = s.limit == "" && s.constraint != machineConstraint
		if s.limit == "" {
			k.FreePages, k.PagesKnown = d.freePages, d.pagesKnown
		} else {
			k.Used, k.Limit, k.Held, k.FilesInMemory = d.used, d.limit, d.statistics.held(d.used), d.statistics.shared
		}
	case d.scope != "":
		k.Cause = notReadable
	case l.group != nil && !l.mayBeSuppressed(at):
		k.TaskCgroup, k.LimitCgroup, k.Partial, k.Group = l.group.TaskCgroup, l.group.LimitCgroup, l.group.Partial, true
		return k
	case lost:
		k.Cause = linesLost
	default:
		k.Cause = notLogged
	}
	l.group, l.last = nil, nil
	if k.TaskCgroup != "" {
		last := k
		l.last = &last
	}
	return k
}

// mayBeSuppressed reports whether the kernel may have left out a line about cgroups: as many as it
// permits were written lately, or may have been. A killed process without such a line may then be
// another OOM kill, in place of a further process of the same one.
func (l *Log) mayBeSuppressed(at time.Duration) bool {
	return at-l.from < scopePeriod || l.count >= scopeBurst && at-l.scopes[l.count%scopeBurst] < scopePeriod
}
