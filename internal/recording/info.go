package recording

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of a description. A ring has fewer segments than maxRuns.
const (
	maxRuns       = 4096
	maxClockSteps = 16 // of a run
)

// Info describes a recording.
type Info struct {
	Runs   []RunInfo
	More   bool // there are more runs, which are not described
	Damage Damage
}

// RunInfo describes the part of a run that is recorded.
type RunInfo struct {
	Header   *Header
	Segments int
	From, To time.Time // by the time of day; zero if nothing is recorded
	Bytes    int64

	Periodic, Early, Usages, Decisions int
	Lost                               uint64 // checks and decisions that were not recorded
	Considered                         int    // checks that considered pods or garbage
	Evicted, DryRun                    int    // pods, by the agent
	PodsEvicted                        int    // pods that ended as evicted, by the agent, a kubelet or another program
	OOMKills                           int64  // processes, on the whole machine; Unknown if not counted
	Brief, Cut                         int    // checks without the pods that they measured, or with a part of them
	MaxPods                            int
	ClockSteps                         []ClockStep // the first ones

	clock           time.Duration
	kills, killsEnd int64
}

// ClockStep is a change of the time of day.
type ClockStep struct {
	At time.Time // by the time of day after it
	By time.Duration
}

// Describe reads a recording and describes it.
func Describe(data []byte) Info {
	var info Info
	r := NewReader(data)
	var run *RunInfo
	for e := r.Next(); e != nil; e = r.Next() {
		if e.Header != nil {
			if run == nil || !e.Header.SameRun(run.Header) {
				if info.More = len(info.Runs) == maxRuns; info.More {
					break
				}
				info.Runs = append(info.Runs, RunInfo{Header: e.Header, kills: Unknown, killsEnd: Unknown})
				run = &info.Runs[len(info.Runs)-1]
			}
			run.Segments++
		}
		run.add(e)
	}
	for i := range info.Runs {
		of := &info.Runs[i]
		if of.OOMKills = Unknown; of.kills != Unknown {
			of.OOMKills = of.killsEnd - of.kills
		}
	}
	info.Damage = r.Damage()
	return info
}

func (i *RunInfo) add(e *Entry) {
	i.Bytes += int64(len(e.Frame))
	if t := e.Time(); !t.IsZero() {
		if i.From.IsZero() {
			i.From = t
		}
		i.To = t
	}
	switch {
	case e.Check != nil:
		i.addCheck(e.Check)
	case e.Usage != nil:
		i.Usages++
		i.MaxPods = max(i.MaxPods, len(e.Usage.Pods))
		for _, g := range e.Usage.Gone {
			if g.End.Evicted() {
				i.PodsEvicted++
			}
		}
		if kills := e.Usage.Node[NodeOOMKills]; kills != Unknown {
			if i.kills == Unknown {
				i.kills = kills
			}
			i.killsEnd = kills
		}
	case e.Decision != nil:
		i.Decisions++
	}
}

func (i *RunInfo) addCheck(c *Check) {
	if c.Snapshot.Kind == signals.Periodic {
		i.Periodic++
	} else {
		i.Early++
	}
	i.Lost += c.Lost
	if c.Brief {
		i.Brief++
	}
	if c.Cut {
		i.Cut++
	}
	if by := c.Clock - i.clock; by != 0 && len(i.ClockSteps) < maxClockSteps {
		i.ClockSteps = append(i.ClockSteps, ClockStep{c.At(), by})
		i.clock = c.Clock
	}
	a := c.Act
	if a == nil {
		return
	}
	i.Considered++
	switch {
	case a.Evicted == nil:
	case a.Evicted.DryRun:
		i.DryRun++
	default:
		i.Evicted++
	}
}
