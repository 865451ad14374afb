package watch

import (
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// Input is the first line of a witness's input. Further lines are [Order]s.
type Input struct {
	Gauge     gauge.Gauge
	Kills     string // file with the kernel's OOM kills of the machine; empty: those of the pods suffice
	Threshold int64  // bytes
	Every     time.Duration
	Slot      time.Duration // width of a slot of the report
	Slots     int           // at most
}

// Order is one line of input: processes to watch, the begin of the incident, or the end.
type Order struct {
	Pod   *Pod `json:",omitempty"`
	Begin bool `json:",omitempty"`
	End   bool `json:",omitempty"`
}

// Pod is a pod, or a daemon, with its processes.
type Pod struct {
	ID     int
	Stat   string // memory.stat of its processes
	Events string // file with the line oom_kill
	PIDs   []int
}

// Report is what the witness saw. Times are those of [gauge.Clock], 0 if never; memory is in bytes.
type Report struct {
	Realtime  bool
	Samples   int64
	MaxGap    int64 // ns between two samples since the begin
	Begin     int64
	Crossed   int64 // less than the threshold was available
	Exhausted int64 // less than a MiB was available
	Least     int64 // available since the begin
	Deaths    []Death
	Kills     []Kill
	// KillsOnMachine is the number of the kernel's kills outside of pods too, if a file was given.
	KillsOnMachine int64
	Slots          []int64 // least available per slot since the begin
}

// Death is the end of one process.
type Death struct {
	Pod, PID int
	At       int64
	Least    int64 // available between the begin and this end
}

// Kill is an increase of a pod's counter of the kernel's OOM kills.
type Kill struct {
	Pod   int
	At    int64
	Count int64
	Least int64 // available between the begin and At
}
