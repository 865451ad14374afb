package report

import (
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the texts of a recording, in bytes.
const (
	maxName = 320 // namespace/name has at most 317
	maxText = 512
	maxNote = 200
)

// printable returns a text of a recording without characters that are not printed, and cut at a bound.
func printable(text string, most int) string {
	const mark = "..."
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(mark)], "") + mark
	}
	return strings.TrimSpace(signals.Printable(text))
}

func printableName(name string) string { return printable(name, maxName) }

// uidOf returns a UID by which a pod is found again. One longer than any of Kubernetes is cut: a file could have
// a gigabyte of them.
func uidOf(uid string) string {
	if len(uid) <= maxNote {
		return uid
	}
	return strings.Clone(uid[:maxNote])
}

// Texts of a recording within a sentence lie between these characters, which no printable text has. Each
// form sets them apart in its own way.
const quoteBegins, quoteEnds = "\x02", "\x03"

// quote marks a printable text of a recording. An empty one stays empty.
func quote(text string) string {
	if text == "" {
		return ""
	}
	return quoteBegins + text + quoteEnds
}

// span is a part of a sentence.
type span struct {
	Text     string
	IsQuoted bool // of the recording
}

// spans splits a sentence into the texts of the recording and those between them.
func spans(sentence string) (parts []span) {
	for sentence != "" {
		before, rest, found := strings.Cut(sentence, quoteBegins)
		if before != "" {
			parts = append(parts, span{before, false})
		}
		if !found {
			break
		}
		quoted, after, _ := strings.Cut(rest, quoteEnds)
		parts, sentence = append(parts, span{quoted, true}), after
	}
	return parts
}

// plain returns a sentence without marks.
func plain(sentence string) string {
	return strings.NewReplacer(quoteBegins, "", quoteEnds, "").Replace(sentence)
}

// amount returns an amount with the name of its unit.
func amount(n signals.Amount, unit signals.Unit) string {
	switch unit {
	case signals.UnitInodes:
		return unit.Short(n) + " inodes"
	case signals.UnitPIDs:
		return unit.Short(n) + " processes"
	}
	return unit.Short(n)
}

// duration returns a duration with two to four digits.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// millis returns a number of milliseconds of a recording as a duration, and false without a sensible one.
func millis(ms *float64) (time.Duration, bool) {
	if ms == nil || !(*ms >= 0 && *ms < 1e12) {
		return 0, false
	}
	return time.Duration(*ms * float64(time.Millisecond)), true
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// times returns how often something happened.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

// listed joins texts as a sentence does.
func listed(texts []string) string {
	if n := len(texts); n > 1 {
		return strings.Join(texts[:n-1], ", ") + " and " + texts[n-1]
	}
	return strings.Join(texts, "")
}

// stamp is the form of a full time of day.
const stamp = "2006-01-02 15:04:05 UTC"

// clock returns a time of day, with the date if the report covers several days.
func (i *Incident) clock(t time.Time) string {
	t = t.UTC()
	if b, e := i.begin.UTC(), i.end.UTC(); b.YearDay() != e.YearDay() || b.Year() != e.Year() {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// moment returns a time of day with its milliseconds: within one second much may follow.
func (i *Incident) moment(t time.Time) string { return i.clock(t) + t.UTC().Format(".000") }
