package kubeletconfig

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Threshold is the value of a signal below which its resource is short: the agent's or the
// kubelet's.
type Threshold struct {
	Signal  signals.Signal
	Text    string         // as configured, such as 100Mi or 10%
	Amount  signals.Amount // 0 for a percentage
	Percent float64        // of the capacity; 0 for an amount
}

// ParseThreshold parses a threshold of a signal: a positive quantity, or a percentage of at most
// 100%. Returns an error if it is neither.
func ParseThreshold(s signals.Signal, text string) (Threshold, error) {
	t := Threshold{Signal: s, Text: text}
	if number, percent := strings.CutSuffix(text, "%"); percent {
		f, err := strconv.ParseFloat(number, 32) // with the kubelet's precision
		if err != nil || math.IsNaN(f) || f < 0 || f > 100 {
			return t, errors.New("must be a percentage between 0% and 100%, such as 10%")
		}
		t.Percent = f
		return t, nil
	}
	q, err := strictyaml.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return t, errors.New("must be a positive quantity or a percentage, such as 100Mi or 10%")
	}
	t.Amount = signals.Amount(strictyaml.Whole(q))
	return t, nil
}

func (t Threshold) String() string { return t.Signal.String() + "<" + t.Text }

// Of returns the threshold as an amount of the capacity, with the kubelet's rounding.
func (t Threshold) Of(capacity signals.Amount) signals.Amount {
	if t.Percent > 0 {
		return signals.Amount(float64(capacity) * float64(float32(t.Percent)/100))
	}
	return t.Amount
}

// Compare returns whether the threshold is below (-1), at (0) or above (1) another one for the same
// capacity. Without a known capacity (0), an amount and a percentage cannot be compared, and
// comparable is false.
func (t Threshold) Compare(other Threshold, capacity signals.Amount) (order int, comparable bool) {
	switch {
	case t.Percent == 0 && other.Percent == 0:
		return compare(float64(t.Amount), float64(other.Amount)), true
	case t.Percent > 0 && other.Percent > 0:
		return compare(t.Percent, other.Percent), true
	case capacity <= 0:
		return 0, false
	}
	return compare(float64(t.Of(capacity)), float64(other.Of(capacity))), true
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Capacity returns the amount that percentages of a signal refer to; 0 if it is unknown.
type Capacity func(signals.Signal) signals.Amount

// Reports reports whether a kubelet's own thresholds cover every cause of the agent's condition.
// lines are the agent's thresholds, hard and soft. An unknown kubelet (nil) covers nothing.
func (c *Config) Reports(condition signals.Condition, lines []Threshold, capacity Capacity) bool {
	for _, line := range lines {
		if line.Signal.Definition().Condition == condition && !c.Reach(line, capacity) {
			return false
		}
	}
	return true
}

// standIns are signals that the kubelet derives from others: a threshold for one of those covers
// it, too. Hard memory thresholds apply to allocatable memory, and a configuration for containerfs
// is overwritten.
var standIns = map[signals.Signal][]signals.Signal{
	signals.AllocatableMemoryAvailable: {signals.MemoryAvailable},
	signals.ContainerfsAvailable:       {signals.NodefsAvailable, signals.ImagefsAvailable},
	signals.ContainerfsInodesFree:      {signals.NodefsInodesFree, signals.ImagefsInodesFree},
}

// Reach reports whether a threshold of the kubelet, hard or soft, is at or above a line of the
// agent. The kubelet then reports everything that the line reports.
func (c *Config) Reach(line Threshold, capacity Capacity) bool {
	if c == nil {
		return false
	}
	return reached(c.Soft, line, capacity) || reached(c.Hard, line, capacity)
}

// ActsAt reports whether a hard threshold of the kubelet is at or above a line of the agent: the kubelet evicts there
// no later than the agent.
func (c *Config) ActsAt(line Threshold, capacity Capacity) bool {
	return c != nil && reached(c.Hard, line, capacity)
}

func reached(thresholds []Threshold, line Threshold, capacity Capacity) bool {
	return slices.ContainsFunc(thresholds, func(t Threshold) bool {
		speaks := t.Signal == line.Signal || slices.Contains(standIns[line.Signal], t.Signal)
		order, comparable := t.Compare(line, capacity(line.Signal))
		return speaks && comparable && order >= 0
	})
}
