package hog

import (
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// Program is what one process does.
type Program struct {
	Gate    string // file with the lock; empty: a child, which waits for nothing
	Ready   string // file that the process creates when Before is done
	Lost    string // file that gets a line for each child that a signal ended: the clock in nanoseconds
	Scratch string // directory on a disk
	Gauge   gauge.Gauge

	Before, Steps []Step
	Exec          []string // instead of steps: a real program, executed when the gate opens
	Serve         *Serve   // instead of steps: the neighbour
	Beat          string   // instead of steps: the heartbeat, and the file made by [CreateBeat]
}

// Step is one step with absolute numbers. Package spec describes the verbs.
type Step struct {
	Verb    string
	Bytes   int64         `json:",omitempty"`
	AllBut  bool          `json:",omitempty"` // Bytes is what remains available
	Rate    int64         `json:",omitempty"` // bytes per second; 0: unlimited
	Time    time.Duration `json:",omitempty"`
	Count   int           `json:",omitempty"`
	AtOnce  int           `json:",omitempty"`
	Every   time.Duration `json:",omitempty"`
	Session bool          `json:",omitempty"`
	Steps   []Step        `json:",omitempty"`
}

// Serve is the work of the neighbour: requests at a constant rate, each with its own deadline, so that a
// stall delays all requests that fall into it.
type Serve struct {
	Records string // file made by [CreateRecords]
	Rate    int    // requests per second
	Working int64  // bytes that requests use again and again
	Fresh   int64  // bytes that each request allocates and releases
}
