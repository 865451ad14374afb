package signals

// Wakes is the set of wakeup sources before a check. It carries no observation: the check itself
// finds out whether there is anything to do. The zero value is the timer.
type Wakes uint8

// Wakeup sources other than the timer.
const (
	ByRequest  Wakes = 1 << iota // the program itself: a task beside the loop has ended
	ByCrossing                   // the kernel saw memory usage cross a registered line
	ByLimit                      // a watched cgroup met its memory limit, or a descendant met its own (memory.events)
	ByOOM                        // the OOM killer was invoked for a watched cgroup or a descendant
	ByStall                      // tasks wait for memory (pressure stall information)
)

// WakeCount is the number of wakeup sources other than the timer.
const WakeCount = 5

var wakeNames = [WakeCount]string{"request", "crossing", "limit", "oom", "stall"}

// Has reports whether all of the given sources are in the set.
func (w Wakes) Has(what Wakes) bool { return w&what == what }

// Any reports whether any of the given sources is in the set.
func (w Wakes) Any(what Wakes) bool { return w&what != 0 }

// WakeNames returns the names of all sources, in the order of their bits.
func WakeNames() []string { return wakeNames[:] }

// Names returns the names of the set's sources; nil for the timer alone.
func (w Wakes) Names() (names []string) {
	for i, name := range wakeNames {
		if w.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// Line is the amount of a memory signal at which a threshold is met.
type Line struct {
	Signal Signal
	At     Amount // available
}
