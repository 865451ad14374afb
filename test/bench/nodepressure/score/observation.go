package score

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// Observation is what was measured in a run. Times are milliseconds since the incident began; memory is
// in bytes.
type Observation struct {
	Total     int64    `json:"total"` // memory of the node
	Threshold int64    `json:"threshold"`
	Duration  float64  `json:"duration"`
	Crossed   *float64 `json:"crossed,omitempty"`   // less than the threshold was available
	Exhausted *float64 `json:"exhausted,omitempty"` // nothing was available
	Least     int64    `json:"least"`               // available, page cache included
	Pods      []Pod    `json:"pods"`
	// MachineKills is the kernel's count of OOM kills anywhere, where the node is the machine.
	MachineKills int64       `json:"machineKills,omitempty"`
	Contestant   *Contestant `json:"contestant,omitempty"` // nil: the kernel alone
	Heartbeat    Heartbeat   `json:"heartbeat"`
	Neighbour    Neighbour   `json:"neighbour"`
	Witness      Witness     `json:"witness"`
	Slots        []int64     `json:"slots"`     // least available in each slot
	SlotWidth    float64     `json:"slotWidth"` // ms
	// Plan identifies the drawn numbers of the run: pods, steps, rates, order. It is equal for two runs of
	// one incident with the same seed on nodes of the same size.
	Plan string `json:"plan,omitempty"`
	// Phase is the part of the contestant's period that passed before the incident, in milliseconds.
	Phase float64 `json:"phase,omitempty"`
	// Enlarged reports that the limit of the node is higher at the end than at the begin.
	Enlarged bool `json:"enlarged,omitempty"`
}

// leastUntil returns the minimum of the available memory from the begin of the incident until a time, and
// the maximum number for a time before the begin.
func (o *Observation) leastUntil(at float64) int64 {
	if len(o.Slots) == 0 {
		return o.Least
	}
	least := int64(math.MaxInt64)
	for i, n := range o.Slots {
		if float64(i)*o.SlotWidth > at {
			break
		}
		least = min(least, n)
	}
	return least
}

// fallSpan is the number of slots over which [Observation.fallToLeast] measures.
const fallSpan = 4

// fallToLeast returns the rate at which the available memory fell to its least value until a time, in bytes per
// millisecond, over the last slots before that value. Between that value and the end of a pod memory may come back
// already, so the slots before the end say less. Returns 0 or less if it did not fall, or if the slots begin later.
func (o *Observation) fallToLeast(until float64) float64 {
	n := until / o.SlotWidth
	if !(o.SlotWidth > 0 && n >= 0 && n < float64(len(o.Slots))) {
		return 0
	}
	passed := o.Slots[:int(n)+1]
	last := slices.Index(passed, slices.Min(passed)) - 1
	if last < fallSpan {
		return 0
	}
	return float64(passed[last-fallSpan]-passed[last]) / (fallSpan * o.SlotWidth)
}

// shortage returns the time from the moment when nothing was available until the end, in milliseconds, if less than the
// threshold was available throughout, and else 0. A kernel may reclaim the pages of programs again and again, and kill
// nothing for minutes.
func (o *Observation) shortage() float64 {
	if o.Exhausted == nil || !(o.SlotWidth > 0) {
		return 0
	}
	from := int(*o.Exhausted / o.SlotWidth)
	if from < 0 || from >= len(o.Slots) || slices.Max(o.Slots[from:]) >= o.Threshold {
		return 0
	}
	return o.Duration - *o.Exhausted
}

// Pod is one instance of a pod, or a daemon.
type Pod struct {
	Name    string    `json:"name"`
	Group   string    `json:"group"` // name in the incident
	UID     string    `json:"uid,omitempty"`
	Daemon  bool      `json:"daemon,omitempty"`
	Deaths  []Death   `json:"deaths,omitempty"` // of its first processes
	Kills   []Kill    `json:"kills,omitempty"`  // by the kernel
	Lost    []float64 `json:"lost,omitempty"`   // times at which a signal ended a child
	AtLimit bool      `json:"atLimit,omitempty"`
	Stopped bool      `json:"stopped,omitempty"` // frozen, or stopped by a signal, at the end
}

// Death is the end of a process.
type Death struct {
	At     float64 `json:"at"`
	PID    int     `json:"pid,omitempty"`
	Signal int     `json:"signal,omitempty"` // 0: it exited
	Code   int     `json:"code,omitempty"`
	Least  int64   `json:"least"` // available between the begin and this end
}

// ending are the signals that contestants end processes with. Others, such as SIGSEGV, are failures of the program.
var ending = []int{int(unix.SIGHUP), int(unix.SIGINT), int(unix.SIGQUIT), int(unix.SIGKILL), int(unix.SIGTERM)}

// signalled reports whether such a signal ended the process, or one that it waited for: shells then exit with 128
// and the number of the signal.
func (d *Death) signalled() bool {
	return slices.Contains(ending, d.Signal) || slices.Contains(ending, d.Code-128)
}

// Kill is a number of processes that the kernel's OOM killer ended.
type Kill struct {
	At    float64 `json:"at"`
	Count int64   `json:"count"`
	Least int64   `json:"least"` // available between the begin and its discovery
}

// Contestant is what the contestant cost.
type Contestant struct {
	Ended       bool    `json:"ended,omitempty"`  // before it was stopped
	Output      string  `json:"output,omitempty"` // the last part
	StartTime   float64 `json:"startTime"`        // ms, until all of its programs worked
	CPUWaiting  float64 `json:"cpuWaiting"`       // percent of a core, before the incident
	CPUIncident float64 `json:"cpuIncident"`      // ms, during the incident
	MaxResident int64   `json:"maxResident"`
	// Elsewhere reports that its processes run outside of its cgroup, so that their cost is unknown.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Heartbeat is the record of a small daemon of the node.
type Heartbeat struct {
	Alive  bool    `json:"alive"`
	MaxGap float64 `json:"maxGap"` // ms
}

// Neighbour is the record of a pod that serves requests at a constant rate.
type Neighbour struct {
	Rate   float64   `json:"rate"` // requests per second
	Quiet  Latency   `json:"quiet"`
	During Latency   `json:"during"`
	Slots  []float64 `json:"slots,omitempty"` // answered requests per slot, as a share of the rate
	// SlotWidth is the width of a slot in milliseconds.
	SlotWidth float64 `json:"slotWidth,omitempty"`
	// Until is the end of the part of the incident that During and the throughput are of; see [JudgedAfter]. 0: its end.
	Until float64 `json:"until,omitempty"`
}

// JudgedAfter is the time after the crossing, in milliseconds, until which the neighbour is judged. Every run lasts that long, while
// the whole time differs between contestants: a stall is a larger part of a shorter time.
const JudgedAfter = 10_000

// Latency is the latency of requests in milliseconds.
type Latency struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
}

// Witness is the quality of the observation.
type Witness struct {
	Realtime bool    `json:"realtime"`
	Samples  int64   `json:"samples"`
	MaxGap   float64 `json:"maxGap"` // ms
}
