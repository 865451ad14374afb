package main

import "time"

// Outcomes of races.
const (
	saved = "saved" // only the hog was evicted, without a kill by the kernel
	lost  = "oom"   // the kernel killed
	wrong = "wrong" // the innocent pod was killed
)

// result is the record of one race: a line of JSON. Times are in milliseconds; those not
// observed are omitted.
type result struct {
	At        time.Time `json:"at"`
	Mode      string    `json:"mode"`
	Arena     string    `json:"arena"`
	Version   int       `json:"cgroup"`
	Requested int64     `json:"mibPerSecond"` // 0 for the maximum
	Margin    int64     `json:"marginMiB"`
	Spinners  int       `json:"spinners"`

	Outcome      string  `json:"outcome"`
	OOMKills     int64   `json:"oomKills"`
	Wrong        int     `json:"wrongVictims"`
	Victim       string  `json:"victim,omitempty"`
	Check        string  `json:"look,omitempty"`
	Reached      float64 `json:"reachedMiBPerSecond,omitempty"` // up to the crossing
	MinAvailable float64 `json:"leastLeftMiB"`                  // minimum available

	ToNotified    *float64 `json:"crossingToNotifiedMillis,omitempty"` // the kernel's own notification, on cgroup v1
	ToCheck       *float64 `json:"crossingToLookMillis,omitempty"`
	ToSignal      *float64 `json:"crossingToSignalMillis,omitempty"`
	CheckToSignal *float64 `json:"lookToSignalMillis,omitempty"`
	ToDead        *float64 `json:"crossingToDeadMillis,omitempty"`
	ToExhausted   *float64 `json:"crossingToExhaustedMillis,omitempty"`
	Unsure        float64  `json:"crossingUnsureMillis"` // between the readings around it

	CPUWaiting float64 `json:"cpuWaitingPercent"` // of one core
	CPURace    float64 `json:"cpuRaceMillis"`
	Ordinary   bool    `json:"witnessWithoutPriority,omitempty"`
}

// classify determines the outcome of a race. The order of kills does not count: a race with a kill
// by the kernel is lost.
func (s *env) classify(seen observation, did kill, spent cpu, kills int64) result {
	r := result{
		At: seen.Dead, Mode: s.contender.name, Arena: s.nodeKind.name, Version: s.Version(),
		Requested: s.rate / mib, Margin: s.margin / mib, Spinners: s.spinners,
		OOMKills: kills, Victim: did.victim, Check: did.check,
		Reached: seen.Rate / mib, MinAvailable: float64(s.gauge.Total-seen.Peak) / mib,
		ToNotified: since(seen.Crossed, seen.Notified), ToCheck: since(seen.Crossed, did.checked),
		ToSignal: since(seen.Crossed, did.signal), CheckToSignal: since(did.checked, did.signal),
		ToExhausted: since(seen.Crossed, seen.Exhausted), ToDead: since(seen.Crossed, seen.Dead), Unsure: millis(seen.Unsure),
		CPUWaiting: 100 * spent.waiting, CPURace: millis(spent.race), Ordinary: seen.Ordinary,
	}
	if !s.innocent.Process.Alive() || did.victim != "" && did.victim != "default/hog" {
		r.Wrong = 1
	}
	switch {
	case kills > 0:
		r.Outcome = lost
	case r.Wrong > 0:
		r.Outcome = wrong
	default: // only the agent can have killed the hog
		r.Outcome = saved
	}
	return r
}

// since returns nil unless both times were observed.
func since(from, to time.Time) *float64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	ms := millis(to.Sub(from))
	return &ms
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
