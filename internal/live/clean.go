package live

import (
	"strings"
	"time"
	"unicode"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of a state. An agent has at most 64 thresholds.
const (
	maxSignals   = 64
	maxPods      = 250
	maxPlaces    = 5
	maxDecisions = 10
	maxNotes     = 8

	maxName   = 320 // namespace/name has at most 317
	maxReason = 512
	maxWord   = 96
)

// Printable returns a text without characters that are not printed, or that may be wider than a column of a terminal,
// cut at a bound in bytes.
func Printable(text string, most int) string {
	const mark = "..."
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(mark)], "") + mark
	}
	return strings.Map(func(r rune) rune {
		if r >= firstCombining || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// firstCombining is the first character of Unicode of another width than the letters of ASCII. Names in Kubernetes are
// ASCII, and durations have a µ.
const firstCombining = 0x300

// clean bounds every list and text of the state, and makes the texts printable.
func (s *State) clean() {
	s.Signals = s.Signals[:min(len(s.Signals), maxSignals)]
	s.Pods = s.Pods[:min(len(s.Pods), maxPods)]
	s.Decisions = s.Decisions[:min(len(s.Decisions), maxDecisions)]
	s.Notes = s.Notes[:min(len(s.Notes), maxNotes)]
	s.Conditions = s.Conditions[:min(len(s.Conditions), signals.ConditionCount)]
	s.PodCount = max(s.PodCount, len(s.Pods))
	words, names, reasons := []*string{&s.Version, &s.Arming}, []*string{&s.Node}, []*string{}
	for i := range s.Conditions {
		words = append(words, &s.Conditions[i])
	}
	for i := range s.Notes {
		reasons = append(reasons, &s.Notes[i])
	}
	if s.Check != nil {
		words = append(words, &s.Check.Kind)
	}
	for i := range s.Signals {
		d := &s.Signals[i]
		words, reasons = append(words, &d.Signal, &d.Kind, &d.Configured), append(reasons, &d.Unknown)
	}
	if n := s.Next; n != nil {
		n.Ranking = n.Ranking[:min(len(n.Ranking), maxPlaces)]
		words, names, reasons = append(words, &n.Signal, &n.Configured), append(names, &n.Pod), append(reasons, &n.Reason, &n.Instead, &n.Approximate)
		for i := range n.Ranking {
			names, reasons = append(names, &n.Ranking[i].Pod), append(reasons, &n.Ranking[i].Reason)
		}
	}
	for i := range s.Pods {
		words, names = append(words, &s.Pods[i].Protection), append(names, &s.Pods[i].Pod)
	}
	for i := range s.Decisions {
		d := &s.Decisions[i]
		words, names, reasons = append(words, &d.Decision, &d.Subject), append(names, &d.Pod), append(reasons, &d.Reason)
	}
	for most, texts := range map[int][]*string{maxWord: words, maxName: names, maxReason: reasons} {
		for _, text := range texts {
			*text = Printable(*text, most)
		}
	}
}

// Millis returns a number of milliseconds of a state as a duration of at most a year.
func Millis(ms float64) time.Duration {
	const most = 365 * 24 * time.Hour
	if ms >= most.Seconds()*1000 {
		return most
	}
	return time.Duration(max(ms, 0) * float64(time.Millisecond))
}
