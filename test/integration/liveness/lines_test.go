package liveness

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// once checks that a line does not repeat the reason of the previous one.
func (m *monitor) once(d *agent.Decision) {
	kind, text := string(d.Decision)+" "+d.Threshold, d.Threshold+" "+d.LimitedBy+" "+ends(d)
	switch d.Decision {
	case agent.Ineffective: // the first line of a limit
		kind = string(agent.Limited) + " " + d.Threshold
		if d.Repeated == agent.RepeatMeasured {
			kind = string(agent.Ineffective) + " measured " + d.Threshold
		}
	case agent.NoneHelps:
		m.onceOfEpisode(d)
		return
	case agent.Pending:
		kind += " " + reasonIn(d.Reason)
		text = d.Threshold
	case agent.Failed:
		if len(d.Failed) > 0 {
			return
		}
		text = d.Threshold
	}
	if m.lines[kind] == text {
		m.fault("logged twice: %s %s", d.Decision, d.Reason)
	}
	m.lines[kind] = text
}

// onceOfEpisode checks a line that no pod helps. An episode ends with an eviction, and with a check that
// finds nothing met. In each, what follows is written once, although it may alternate between checks:
// each of the two causes, the consumers, imminent exhaustion, and that nothing is available. Changed
// consumers are written at most every ten minutes.
func (m *monitor) onceOfEpisode(d *agent.Decision) {
	what := string(d.Repeated)
	if d.Repeated == "" {
		what = cause(d.Reason)
	}
	kind := noneHelps(d.Threshold, what)
	if last := m.lines[kind]; last != "" && d.Repeated != agent.RepeatChanged {
		m.fault("logged twice: %s %s: %s", d.Decision, what, d.Reason)
	}
	m.lines[kind] = d.Threshold
	if d.Available != nil && *d.Available <= 0 {
		m.lines[noneHelps(d.Threshold, string(agent.RepeatUsedUp))] = d.Threshold
	}
	if d.Repeated == agent.RepeatChanged && d.Time.Sub(m.named[d.Signal]) < 10*time.Minute {
		m.fault("changed consumers are logged %s after others", d.Time.Sub(m.named[d.Signal]))
	}
	if d.Consumers != nil {
		m.named[d.Signal] = d.Time
	}
}

// noneHelps returns the kind of a line that no pod helps.
func noneHelps(threshold, what string) string {
	return string(agent.NoneHelps) + " " + threshold + " " + what
}

// cause returns the cause in a reason for which no pod helps.
func cause(reason string) string {
	if strings.Contains(reason, " together: ") {
		return "together"
	}
	if strings.Contains(reason, " is page cache of ") {
		return "cache"
	}
	return "each"
}

var (
	durations = regexp.MustCompile(`\bfor ([0-9hms.]+)`)
	numbers   = regexp.MustCompile(`\d+ (evictions|pods)`)
)

// ends returns the reason without action, with the end of the limit instead of the remaining
// time. So two lines about one limit are equal, and lines about two limits differ.
func ends(d *agent.Decision) string {
	text := durations.ReplaceAllStringFunc(numbers.ReplaceAllString(d.Reason, "$1"), func(found string) string {
		left, err := time.ParseDuration(strings.TrimPrefix(found, "for "))
		if err != nil {
			return found
		}
		return "until " + d.Time.Add(left).Round(time.Millisecond).String()
	})
	return text
}

// blocks returns the reasons without action for other thresholds.
func blocks(o *agent.Outcome) (all []string) {
	for i := range o.Passed {
		p := &o.Passed[i]
		all = append(all, fmt.Sprintf("%s: %s%s%v%v", p.Verdict.Target, p.Blocked, p.LimitReason(), p.Collecting, p.Failed))
	}
	return all
}

// reasonIn returns the reason in a sentence, without its figures.
func reasonIn(why string) string {
	_, rest, _ := strings.Cut(why, ": ")
	reason, _, _ := strings.Cut(rest, ", available")
	return reason
}
