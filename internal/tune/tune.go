package tune

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

// Options select what is compared.
type Options struct {
	Signal signals.Signal
	Values []string      // thresholds, such as 200Mi or 5%
	Config *config.Agent // with which recordings are replayed; nil: the last one in each
	ByTime bool          // exhaustion counts by its time, in place of the number of nodes
}

// Range is between two bounds, which are equal if the number is known.
type Range[T int | float64] struct {
	Lower T `json:"lower"`
	Upper T `json:"upper"`
}

// Totals are the results of one threshold, or as recorded.
type Totals struct {
	Evictions        Range[int]     `json:"evictions"`
	ExhaustedNodes   Range[int]     `json:"exhaustedNodes"`
	ExhaustedSeconds Range[float64] `json:"exhaustedSeconds"`
}

// Point is a threshold and its results.
type Point struct {
	Threshold string `json:"threshold"`
	Front     bool   `json:"front"`
	Totals
	Recordings []Course `json:"recordings"` // in the order of the result's
}

// Course has the results of one threshold in one recording.
type Course struct {
	Evictions        Range[int]     `json:"evictions"`
	Exhausted        Range[int]     `json:"exhausted"` // 1 if memory was exhausted, or the kernel killed for it
	ExhaustedSeconds Range[float64] `json:"exhaustedSeconds"`
}

// Recording is a recording that was replayed.
type Recording struct {
	File   string    `json:"file"`
	Node   string    `json:"node"`
	Begin  time.Time `json:"begin"`
	End    time.Time `json:"end"`
	Checks int       `json:"checks"`
}

// Result is the comparison of thresholds.
type Result struct {
	document.Header
	Signal     string      `json:"signal"`
	By         string      `json:"by"` // nodes or time: how exhaustion counts for the front
	Nodes      int         `json:"nodes"`
	Recorded   Totals      `json:"recorded"`
	Points     []Point     `json:"points"` // in the order of the values
	Recordings []Recording `json:"recordings"`
	// Overlapping are the nodes with recordings of one time: what happened then counts more than once.
	Overlapping []string `json:"overlapping"`
}

// Tuning is a comparison in progress.
type Tuning struct {
	options    Options
	recordings []Recording
	recorded   []Course
	courses    [][]Course // by value
}

// MaxValues bounds the values: each is replayed twice beside the others.
const MaxValues = 64

// New returns a comparison without recordings. Returns an error for a signal or a value that cannot be compared.
func New(o Options) (*Tuning, error) {
	switch {
	case !o.Signal.OfMemory():
		return nil, fmt.Errorf("%s: a replay changes memory alone: use %s or %s", o.Signal, signals.MemoryAvailable, signals.AllocatableMemoryAvailable)
	case len(o.Values) == 0:
		return nil, errors.New("no threshold is given: name at least one, such as 200Mi")
	case len(o.Values) > MaxValues:
		return nil, fmt.Errorf("%d thresholds: at most %d are compared at once", len(o.Values), MaxValues)
	}
	for _, value := range o.Values {
		if _, err := config.NewAgent().WithHardThreshold(o.Signal, value).Policy(signals.Single); err != nil {
			return nil, err
		}
	}
	return &Tuning{options: o, courses: make([][]Course, len(o.Values))}, nil
}

// Add replays a recording with each threshold. Returns [*recording.MalformedError] for data that is no recording, or
// that is damaged: then the rest counts nevertheless. Returns another error if its configuration cannot be read, or if
// it has more pods than are followed.
func (t *Tuning) Add(file string, data []byte) error {
	base, node, err := t.base(file, data)
	if err != nil {
		return err
	}
	variants := make([]*config.Agent, len(t.options.Values))
	for i, value := range t.options.Values {
		variants[i] = base.WithHardThreshold(t.options.Signal, value)
	}
	results, err := simulate.CompareEach(data, variants)
	if errors.Is(err, recording.ErrNoRecording) {
		return &recording.MalformedError{File: file, Cause: errNoCheck}
	}
	if err != nil {
		return fmt.Errorf("replay %s: %w", file, err)
	}
	first := results[0]
	t.recordings = append(t.recordings, Recording{file, node, first.From, first.To, first.Checks})
	t.recorded = append(t.recorded, courseOf(&first.Recorded, &first.Recorded))
	for i, r := range results {
		t.courses[i] = append(t.courses[i], courseOf(&r.Kept, &r.Grown))
	}
	return first.Damage.Err(file)
}

// errNoCheck is the cause of an error of a recording that cannot be replayed.
var errNoCheck = fmt.Errorf("%w No check is recorded", recording.ErrNoRecording)

// base returns the configuration with which a recording is replayed, and the name of its node.
func (t *Tuning) base(file string, data []byte) (base *config.Agent, node string, err error) {
	var last *recording.Header
	r := recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		if e.Header != nil {
			last = e.Header
		}
	}
	if last == nil {
		return nil, "", &recording.MalformedError{File: file, Cause: recording.ErrNoRecording}
	}
	node = cmp.Or(signals.PrintableName(last.Node), "unknown")
	if t.options.Config != nil {
		return t.options.Config, node, nil
	}
	base, err = config.ParseFile(last.Config)
	if err != nil {
		return nil, "", fmt.Errorf("read the configuration in %s: %w", file, err)
	}
	return base, node, nil
}

// courseOf returns the results between the two bounds of a replay.
func courseOf(kept, grown *simulate.Course) Course {
	exhausted := func(c *simulate.Course) int {
		if !c.Exhausted.IsZero() || c.Kills > 0 {
			return 1
		}
		return 0
	}
	return Course{between(len(kept.Evictions), len(grown.Evictions)), between(exhausted(kept), exhausted(grown)),
		between(kept.ExhaustedFor.Seconds(), grown.ExhaustedFor.Seconds())}
}

func between[T int | float64](a, b T) Range[T] { return Range[T]{min(a, b), max(a, b)} }

// Result returns the comparison.
func (t *Tuning) Result() *Result {
	r := &Result{Header: document.NewHeader("ThresholdTuning"), Signal: t.options.Signal.String(), By: "nodes", Recordings: append([]Recording{}, t.recordings...)}
	if t.options.ByTime {
		r.By = "time"
	}
	nodes := map[string]bool{}
	for i := range t.recordings {
		nodes[t.recordings[i].Node] = true
	}
	r.Nodes, r.Recorded, r.Overlapping = len(nodes), t.total(t.recorded), overlapping(t.recordings)
	for i, value := range t.options.Values {
		r.Points = append(r.Points, Point{Threshold: value, Totals: t.total(t.courses[i]), Recordings: append([]Course{}, t.courses[i]...)})
	}
	markFront(r.Points, t.options.ByTime)
	return r
}

// overlapping returns the nodes with recordings of one time.
func overlapping(all []Recording) []string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Recording) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Begin.Compare(b.Begin)) })
	nodes := []string{}
	for i := 1; i < len(all); i++ {
		before, x := &all[i-1], &all[i]
		if x.Node != before.Node {
			continue
		}
		if x.Begin.Before(before.End) && !slices.Contains(nodes, x.Node) {
			nodes = append(nodes, x.Node)
		}
		if x.End.Before(before.End) {
			x.End = before.End
		}
	}
	return nodes
}

// total returns the sum over recordings. A node counts as exhausted once, in however many recordings it was.
func (t *Tuning) total(courses []Course) (all Totals) {
	lower, upper := map[string]bool{}, map[string]bool{}
	for i, c := range courses {
		all.Evictions.Lower += c.Evictions.Lower
		all.Evictions.Upper += c.Evictions.Upper
		all.ExhaustedSeconds.Lower += c.ExhaustedSeconds.Lower
		all.ExhaustedSeconds.Upper += c.ExhaustedSeconds.Upper
		if c.Exhausted.Lower > 0 {
			lower[t.recordings[i].Node] = true
		}
		if c.Exhausted.Upper > 0 {
			upper[t.recordings[i].Node] = true
		}
	}
	all.ExhaustedNodes = Range[int]{len(lower), len(upper)}
	return all
}
