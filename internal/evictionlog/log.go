package evictionlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Bounds of the record of one node. With a cluster's thousands of nodes, they bound what all records take
// in the API server's store.
const (
	MaxRecords = 100
	MaxBytes   = 32 << 10
	// MaxAge is the age up to which a record stays when a later one is written, and up to which the record of a node
	// that is gone stays.
	MaxAge = 30 * 24 * time.Hour
	// MaxAhead is the time by which the clocks of two machines may differ.
	MaxAhead = 5 * time.Minute
)

// Log has the last evictions of a node, the oldest first. The zero value is empty.
type Log struct{ lines []line }

// line is one line of the record.
type line struct {
	text      string
	uid       string
	at        time.Time // zero: this version cannot read the line
	namespace string
	withdrawn bool
}

func (l *line) known() bool { return !l.at.IsZero() }

// size is the number of bytes of a line, its end included.
func (l *line) size() int { return len(l.text) + 1 }

// Parse returns the log with the lines of a text.
func Parse(text string) *Log {
	l := &Log{}
	for part := range strings.Lines(text) {
		if part = strings.TrimSpace(part); part != "" {
			l.lines = append(l.lines, parseLine(part))
		}
	}
	return l
}

// parseLine reads what the log needs of a line.
func parseLine(text string) line {
	var r struct {
		Time          time.Time
		Pod, UID, End string
	}
	if json.Unmarshal([]byte(text), &r) != nil || r.Pod == "" {
		return line{text: text}
	}
	namespace, _, _ := strings.Cut(r.Pod, "/")
	return line{text, r.UID, r.Time, namespace, r.End == Withdrawn}
}

// String returns the text of the log.
func (l *Log) String() string {
	var b strings.Builder
	for i := range l.lines {
		b.WriteString(l.lines[i].text)
		b.WriteByte('\n')
	}
	return b.String()
}

// Len returns the number of lines.
func (l *Log) Len() int { return len(l.lines) }

// Records returns the records that this version can read, the oldest first, and the number of other lines.
func (l *Log) Records() (records []decisionlog.Record, unreadable int) {
	for i := range l.lines {
		if r, err := decode(l.lines[i].text); err != nil {
			unreadable++
		} else {
			records = append(records, r)
		}
	}
	return records, unreadable
}

// Put adds the record of an eviction, or replaces an earlier record of the same one. Returns an error if it
// cannot be encoded.
func (l *Log) Put(r *decisionlog.Record) error {
	text, err := encode(r)
	if err == nil {
		l.put(parseLine(text))
	}
	return err
}

// put replaces the line of the same eviction. A new line is placed by its time.
func (l *Log) put(n line) {
	l.lines = slices.DeleteFunc(l.lines, func(o line) bool { return o.known() && o.uid == n.uid && o.at.Equal(n.at) })
	i := len(l.lines)
	for i > 0 && l.lines[i-1].known() && l.lines[i-1].at.After(n.at) {
		i--
	}
	l.lines = slices.Insert(l.lines, i, n)
}

// Add adds all lines of another log, whose records replace those of the same evictions. A withdrawn eviction with
// a later record of its pod is dropped. A line that this version cannot read is added once.
func (l *Log) Add(other *Log) {
	for _, n := range other.lines {
		if n.known() {
			l.put(n)
		} else if !slices.ContainsFunc(l.lines, func(o line) bool { return o.text == n.text }) {
			l.lines = append(l.lines, n)
		}
	}
	last := map[string]time.Time{} // by UID
	for i := range l.lines {
		if o := &l.lines[i]; o.known() && o.at.After(last[o.uid]) {
			last[o.uid] = o.at
		}
	}
	l.lines = slices.DeleteFunc(l.lines, func(o line) bool { return o.withdrawn && o.at.Before(last[o.uid]) })
}

// Expire drops the records that are older than MaxAge at a time. The time must not be that of the node's own clock:
// one that is a month ahead would drop all of them.
func (l *Log) Expire(at time.Time) {
	l.lines = slices.DeleteFunc(l.lines, func(o line) bool { return o.known() && at.Sub(o.at) > MaxAge })
}

// Trim drops as many records as exceed the bounds: each time the oldest one of the namespace with the most bytes.
// A record of the future, which a wrong clock wrote, counts as the oldest: it would displace every later one. It
// returns the number of dropped records. Returns an error if the lines that this version cannot read take more than
// half of the bytes: it drops none of them.
func (l *Log) Trim(now time.Time) (dropped int, err error) {
	total, unreadable, count := 0, 0, 0
	held := map[string]int{} // by namespace
	for i := range l.lines {
		o := &l.lines[i]
		if total += o.size(); !o.known() {
			unreadable += o.size()
			continue
		}
		count++
		held[o.namespace] += o.size()
	}
	if unreadable > MaxBytes/2 {
		return 0, fmt.Errorf("%d bytes are of no form that this version knows, at most %d are preserved", unreadable, MaxBytes/2)
	}
	for total > MaxBytes || count > MaxRecords {
		i := l.oldestOfLargest(held, now.Add(MaxAhead))
		o := &l.lines[i]
		total, count, dropped = total-o.size(), count-1, dropped+1
		held[o.namespace] -= o.size()
		l.lines = slices.Delete(l.lines, i, i+1)
	}
	return dropped, nil
}

// oldestOfLargest returns the first line of the namespace with the most bytes, but one behind a time before all
// others. Of several such namespaces it is the one with the oldest record.
func (l *Log) oldestOfLargest(held map[string]int, future time.Time) (oldest int) {
	most := 0
	for _, n := range held {
		most = max(most, n)
	}
	oldest = -1
	for i := range l.lines {
		o := &l.lines[i]
		switch {
		case !o.known() || held[o.namespace] != most:
		case o.at.After(future):
			return i // the lines are in the order of their times
		case oldest < 0:
			oldest = i
		}
	}
	return oldest
}
