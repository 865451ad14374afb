package simulate

import (
	"encoding/json"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// killCounter is the kernel's counter of OOM kills, as far as it is recorded.
type killCounter struct{ first, last int64 }

func (c *killCounter) add(n int64) {
	if n == recording.Unknown {
		return
	}
	if c.first == recording.Unknown {
		c.first = n
	}
	c.last = n
}

// since returns the kills since the first value, [recording.Unknown] without one.
func (c *killCounter) since() int64 {
	if c.first == recording.Unknown {
		return recording.Unknown
	}
	return max(c.last-c.first, 0)
}

// maxShortageAge is the maximum time from a decision to an OOM kill for which its shortage counts. A dry run is repeated
// every 30 s while the threshold stays met.
const maxShortageAge = time.Minute

// maxKills bounds the processes of a line of another origin, so that no sum overflows.
const maxKills = 1 << 20

// shortage is the memory that was missing at a decision in dry run.
type shortage struct {
	at     time.Time
	signal signals.Signal
	amount signals.Amount // 0: not recorded
	enough signals.Amount // available without the shortage
}

// until returns the memory that was missing at a time, by the last check before it; 0 if the recording does not show it.
func (s *shortage) until(at time.Time, node *signals.Observations) signals.Amount {
	if s.amount <= 0 || at.Before(s.at) || at.Sub(s.at) > maxShortageAge {
		return 0
	}
	if o := &node[s.signal]; o.Known {
		return max(s.amount, s.enough.Plus(-o.Available))
	}
	return s.amount
}

// logLine is what a comparison reads of a line of the decision log.
type logLine struct {
	Decision, LimitOf, Signal string
	Kills                     int64
	Available                 int64
	Choice                    struct {
		Cause    string
		Shortage int64
	}
}

// addLine adds a line of the decision log: the shortage of a decision in dry run, or an OOM kill. The shortage of an
// agent that evicts is not that of a later kill, since the eviction has freed memory meanwhile.
func (x *comparer) addLine(d *recording.Decision) {
	var l logLine
	if json.Unmarshal(d.Line, &l) != nil {
		return
	}
	switch l.Decision {
	case "would-evict":
		s, err := signals.Parse(l.Signal)
		if err == nil && s.OfMemory() && l.Choice.Cause == l.Signal {
			missing := signals.Amount(l.Choice.Shortage)
			x.shortage = shortage{d.At, s, missing, signals.Amount(l.Available).Plus(missing)}
		}
	case "oom-kill":
		if l.LimitOf == "node" || l.LimitOf == "pods" {
			x.addKills(d.At, min(max(l.Kills, 1), maxKills))
		}
	}
}

// addKills adds the OOM kills of a line for the memory of the node or of all pods. The optimistic bound avoids them with
// any memory more than recorded, the pessimistic one with the missing amount. That of a second kill is not known: the
// first one has freed memory too.
func (x *comparer) addKills(at time.Time, processes int64) {
	missing := x.shortage.until(at, &x.node)
	if x.shortage = (shortage{}); processes > 1 {
		missing = 0
	}
	x.recorded.Kills += processes
	for _, v := range x.variants {
		v.now = at
		more := v.more(at.Add(-eviction.ReactionTime))
		if more <= 0 || v.grows && (missing == 0 || more < missing) {
			v.course.Kills += processes
		}
	}
}
