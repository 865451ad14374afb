package inflight

// State is the state of an eviction in a [Set]. It has no state for the end: an eviction ends by its
// removal from the set.
type State uint8

// The states of an eviction.
const (
	// Decided: a pod was chosen, and nothing has been done to it yet.
	Decided State = iota
	// DryRun: the agent is disarmed. Nothing was done, and nothing will be freed.
	DryRun
	// Terminating: a soft eviction; the pod has its grace period.
	Terminating
	// Escalated: a hard threshold has cut the grace period of a soft eviction short.
	Escalated
	// Finishing: a soft eviction hangs after its escalation. The loop has sent SIGKILL itself, or has
	// tried to.
	Finishing
	// Exiting: all processes were sent SIGKILL, or the kubelet is to end them, and some of them may still
	// exist.
	Exiting
	// Freeing: no process is left, and what the pod held is being freed.
	Freeing
)

var stateNames = [...]string{"decided", "dry-run", "terminating", "escalated", "finishing", "exiting", "freeing"}

func (s State) String() string { return stateNames[s] }

// Event is a cause for a change of state.
type Event uint8

// The events of an eviction.
const (
	Skip      Event = iota // the agent is disarmed
	Terminate              // a soft eviction begins
	Escalate               // a hard threshold needs the memory at once
	Finish                 // the loop sends SIGKILL itself, or fails to
	Remain                 // processes exist after the kill, even a failed one, or after the soft eviction
	Exit                   // no process is left
)

var eventNames = [...]string{"skip", "terminate", "escalate", "finish", "remain", "exit"}

func (e Event) String() string { return eventNames[e] }

// next is the transition table: a pair without an entry changes nothing.
var next = map[State]map[Event]State{
	Decided:     {Skip: DryRun, Terminate: Terminating, Remain: Exiting, Exit: Freeing},
	Terminating: {Escalate: Escalated, Remain: Exiting, Exit: Freeing},
	Escalated:   {Finish: Finishing, Remain: Exiting, Exit: Freeing},
	Finishing:   {Remain: Exiting, Exit: Freeing},
	Exiting:     {Exit: Freeing},
}

// Next returns the state after an event, and whether the table has an entry for the pair.
func (s State) Next(e Event) (State, bool) {
	to, ok := next[s][e]
	return to, ok
}

// move applies an event and reports whether it changed the state. No other function changes it.
func (e *Eviction) move(event Event) bool {
	to, ok := e.state.Next(event)
	if ok {
		e.state = to
	}
	return ok
}

// Soft reports whether a soft eviction is in flight without a result.
func (s State) Soft() bool { return s == Terminating || s == Escalated || s == Finishing }
