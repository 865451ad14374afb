package core

// transitions is a transition table. An event that it does not have for a state changes
// nothing.
type transitions[S, E comparable] map[S]map[E]S

// move applies an event to a state, and reports whether that changed it.
func (t transitions[S, E]) move(s *S, e E) bool {
	to, ok := t[*s][e]
	if ok {
		*s = to
	}
	return ok
}

// healthState is what heartbeats, the check of missed ones and the node's own reports
// come to. The zero value is that of a node that never missed its grace period.
type healthState uint8

// The health states. Three of them await the check of missed heartbeats: their nodes
// may still be alive.
const (
	stateHealthy healthState = iota
	// stateSuspected: heartbeats are missing, without confirmation yet.
	stateSuspected
	// stateUnreachable: the loss is confirmed. The node counts as Unknown.
	stateUnreachable
	// stateRecovering: heartbeats resumed, and the node counts as Unknown until it reports its
	// condition Ready itself. In this state and all later ones heartbeats resumed at least once.
	stateRecovering
	// stateRelapsed: heartbeats are missing again before that report. The earlier
	// confirmation still makes the node Unknown, but evicts no pod.
	stateRelapsed
	// stateResumed: heartbeats resumed, and nothing is believed about the node but what
	// its object shows. It ends when the node is ready.
	stateResumed
	// stateSuspectedAgain: heartbeats are missing again before the node was ready.
	stateSuspectedAgain
)

var healthNames = [...]string{"healthy", "suspected", "unreachable", "recovering", "relapsed", "resumed", "suspected-again"}

func (s healthState) String() string { return healthNames[s] }

// healthEvent changes the health state of a node.
type healthEvent uint8

// The health events.
const (
	heartbeatsMissed  healthEvent = iota // for a grace period
	lossConfirmed                        // the check found the node to be lost
	heartbeatReceived                    // one was received
	readyReported                        // the node wrote its condition Ready since it was lost
	lossWithdrawn                        // heartbeats resumed before anything of the loss was written
	readyAgain                           // the node counts as ready
)

var healthEventNames = [...]string{"missed", "confirmed", "received", "reported", "withdrawn", "ready"}

func (e healthEvent) String() string { return healthEventNames[e] }

// healthTable has one transition that is not evident: a node that reports Ready while its
// heartbeats are missing is suspected anew, since its lease was not renewed.
var healthTable = transitions[healthState, healthEvent]{
	stateHealthy:        {heartbeatsMissed: stateSuspected},
	stateSuspected:      {lossConfirmed: stateUnreachable, heartbeatReceived: stateResumed},
	stateUnreachable:    {heartbeatReceived: stateRecovering, readyReported: stateSuspected},
	stateRecovering:     {heartbeatsMissed: stateRelapsed, readyReported: stateResumed, lossWithdrawn: stateResumed},
	stateRelapsed:       {lossConfirmed: stateUnreachable, heartbeatReceived: stateRecovering, readyReported: stateSuspectedAgain},
	stateResumed:        {heartbeatsMissed: stateSuspectedAgain, readyAgain: stateHealthy},
	stateSuspectedAgain: {lossConfirmed: stateUnreachable, heartbeatReceived: stateResumed, readyAgain: stateSuspected},
}

// silent reports whether heartbeats are missing.
func (s healthState) silent() bool {
	switch s {
	case stateSuspected, stateUnreachable, stateRelapsed, stateSuspectedAgain:
		return true
	}
	return false
}

// lost reports whether the node counts as Unknown because its loss was confirmed.
func (s healthState) lost() bool {
	return s == stateUnreachable || s == stateRecovering || s == stateRelapsed
}

// resumed reports whether a heartbeat ended a silence, and the node was neither ready nor
// confirmed to be lost since.
func (s healthState) resumed() bool { return s >= stateRecovering }

// queueState is how far the eviction of a node's pods is, where the rate of its zone
// or of recoveries limits it.
type queueState uint8

// The queue states.
const (
	stateNotQueued queueState = iota
	// stateQueued: the node awaits a token of its zone.
	stateQueued
	// stateTokenGranted: the token is to be spent in the same call of Act.
	stateTokenGranted
	// statePodsEvicted: the token was spent on all pods, in the mode without taints.
	statePodsEvicted
	// stateUntaintAllowed: the node is ready, and its NoExecute taints may be removed.
	stateUntaintAllowed
)

var queueNames = [...]string{"not-queued", "queued", "token-granted", "pods-evicted", "untaint-allowed"}

func (s queueState) String() string { return queueNames[s] }

// queueEvent changes the queue state of a node.
type queueEvent uint8

// The queue events.
const (
	enqueued         queueEvent = iota // a token of its zone is what the node lacks
	dequeued                           // it no longer is, or cannot be used at present
	tokenGranted                       // the zone has one
	tokenSpent                         // a write of NoExecute taints spends it
	podsEvicted                        // the eviction of all pods spends it
	readinessChanged                   // the effective Ready is another one
	zonesDisrupted                     // every zone is fully disrupted
	untaintAllowed                     // the rate of recoveries allows it
	untainted                          // no NoExecute taint is left to remove
)

var queueEventNames = [...]string{
	"enqueued", "dequeued", "token-granted", "token-spent", "pods-evicted",
	"readiness-changed", "zones-disrupted", "untaint-allowed", "untainted",
}

func (e queueEvent) String() string { return queueEventNames[e] }

var queueTable = transitions[queueState, queueEvent]{
	stateNotQueued:      {enqueued: stateQueued, untaintAllowed: stateUntaintAllowed},
	stateQueued:         {dequeued: stateNotQueued, tokenGranted: stateTokenGranted},
	stateTokenGranted:   {tokenSpent: stateNotQueued, podsEvicted: statePodsEvicted},
	statePodsEvicted:    {readinessChanged: stateNotQueued, zonesDisrupted: stateNotQueued},
	stateUntaintAllowed: {readinessChanged: stateNotQueued, untainted: stateNotQueued},
}
