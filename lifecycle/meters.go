package lifecycle

import "time"

// Meters are what is counted; who serves the counts is not known here. A nil
// function counts nothing. All are called from goroutines of their own, and must
// not wait.
type Meters struct {
	// Decided: an action of this kind was decided for; rehearsed: it is only told.
	Decided func(kind string, rehearsed bool)
	// Tainted: a node of the zone (region/zone) was given up: it got its first
	// NoExecute taint for not being ready, or loses its pods in the mode without taints.
	Tainted func(zone string)
	// PodDeleted: a pod was deleted for a NoExecute taint, or with its node, so long
	// after that was decided.
	PodDeleted func(late time.Duration)
	// Request: one to the API server ended, after waiting for its turn for so long.
	// class is one of [Classes], result one of [Results].
	Request func(class, result string, waited, took time.Duration)
	// EventDropped: an event was not sent, because there were too many.
	EventDropped func()
	// Looked: the fleet was asked once what to do, which took so long.
	Looked func(took time.Duration)
	// Leading: this process decides, or does not any more.
	Leading func(bool)
}

func (m *Meters) decided(kind string, rehearsed bool) {
	if m.Decided != nil {
		m.Decided(kind, rehearsed)
	}
}

func (m *Meters) givenUp(zone string) {
	if m.Tainted != nil {
		m.Tainted(zone)
	}
}

func (m *Meters) podDeleted(late time.Duration) {
	if m.PodDeleted != nil {
		m.PodDeleted(late)
	}
}

func (m *Meters) request(c class, waited, took time.Duration, r result) {
	if m.Request != nil {
		m.Request(c.String(), resultNames[r], waited, took)
	}
}

func (m *Meters) eventDropped() {
	if m.EventDropped != nil {
		m.EventDropped()
	}
}

func (m *Meters) looked(took time.Duration) {
	if m.Looked != nil {
		m.Looked(took)
	}
}

func (m *Meters) leading(is bool) {
	if m.Leading != nil {
		m.Leading(is)
	}
}
