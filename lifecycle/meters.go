package lifecycle

import "time"

// Meters are the metrics of the controller. Their export is up to the caller. A nil function
// counts nothing. All are called concurrently, and must not block.
type Meters struct {
	// Decided: an action of this kind was decided; dryRun: it is only reported.
	Decided func(kind string, dryRun bool)
	// Tainted: a node of the zone (region/zone) was declared lost. It got its first NoExecute
	// taint for not being ready, or loses its pods in the mode without taints.
	Tainted func(zone string)
	// PodDeleted: a pod was deleted for a NoExecute taint, or with its node, with this delay
	// after the decision.
	PodDeleted func(late time.Duration)
	// Request: a request to the API server ended, after waiting this long for its turn. The class
	// is one of [Classes], the result one of [Results].
	Request func(class, result string, waited, took time.Duration)
	// EventDropped: an event was dropped because the queue was full.
	EventDropped func()
	// Checked: one evaluation of the fleet took this long.
	Checked func(took time.Duration)
	// Leading: this process starts or stops leading.
	Leading func(bool)
}

func (m *Meters) decided(kind string, dryRun bool) {
	if m.Decided != nil {
		m.Decided(kind, dryRun)
	}
}

func (m *Meters) tainted(zone string) {
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

func (m *Meters) checked(took time.Duration) {
	if m.Checked != nil {
		m.Checked(took)
	}
}

func (m *Meters) leading(is bool) {
	if m.Leading != nil {
		m.Leading(is)
	}
}
