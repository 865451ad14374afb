package report

import (
	"errors"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// Options select the time of a report, by the time of day. A zero begin or end is that of the recording.
type Options struct{ Begin, End time.Time }

// ErrNothing is the error of a time without a recorded value.
var ErrNothing = errors.New("nothing is recorded in this time")

// Bounds of the lists of a report.
const (
	maxAgents     = 16
	maxEvictions  = 40
	maxDecisions  = 200
	maxKills      = 40
	maxDepartures = 40
	maxGaps       = 40
	maxChanges    = 16
)

// Incident is what a recording has about a time.
type Incident struct {
	begin, end time.Time // of the first and the last recorded value
	agents     []*agentRun
	moreAgents int

	histories  [signals.Count]*history // nil: not observed
	conditions [signals.ConditionCount]presence
	periodic   presence // checks
	early      presence
	memory     *memory

	evictions  ends[*evicted]
	dryRuns    int // of the evictions
	decisions  ends[*decision]
	refusals   map[string]int // decisions without an eviction, by verb
	departures ends[departure]
	kills      ends[kill]
	counted    int64 // processes that the kernel's counter has, recording.Unknown without one
	named      int64 // processes that lines and counters of pods have

	changes ends[string] // times of changes of the configuration
	gaps    ends[string]
	notes   []string // further parts that are missing
	asked   Options
	usages  int
	damaged recording.Damage
}

// Read returns the incident of a time. It returns [recording.ErrNoRecording] for data that is no
// recording, and [ErrNothing] if nothing is recorded in that time.
func Read(data []byte, o Options) (*Incident, error) {
	s, err := surveyOf(data, o)
	if err != nil {
		return nil, err
	}
	r := newReading(s, o)
	reader := recording.NewReader(data)
	for e := reader.Next(); e != nil; e = reader.Next() {
		r.add(e)
	}
	r.damaged = reader.Damage()
	r.conclude(s)
	return r.Incident, nil
}

// at returns a time since the begin.
func (i *Incident) at(t time.Time) time.Duration { return t.Sub(i.begin) }

// span returns the duration of the report.
func (i *Incident) span() time.Duration { return i.end.Sub(i.begin) }

// node returns the names of the nodes.
func (i *Incident) node() string {
	var names []string
	for _, a := range i.agents {
		if name := quote(a.node); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return listed(names)
}
