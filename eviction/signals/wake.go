package signals

// Wakes says what ended the wait before a look: nothing of it is an observation.
// A look that was woken finds out by itself whether there is anything to do. The
// zero value is the timer.
type Wakes uint8

// What wakes, besides the timer.
const (
	ByRequest  Wakes = 1 << iota // by this program: something beside the loop has ended
	ByCrossing                   // the kernel saw the usage of memory cross a line that it was given
	ByLimit                      // a watched cgroup met its memory limit, or one below it its own (memory.events)
	ByOOM                        // the kernel's OOM killer was called for a watched cgroup, or for one below it
	ByStall                      // tasks wait for memory (pressure stall information)
)

// WakeCount is the number of things that wake besides the timer.
const WakeCount = 5

var wakeNames = [WakeCount]string{"request", "crossing", "limit", "oom", "stall"}

// Has reports whether all of what were among what woke.
func (w Wakes) Has(what Wakes) bool { return w&what == what }

// Any reports whether any of what was among what woke.
func (w Wakes) Any(what Wakes) bool { return w&what != 0 }

// WakeNames are the names of all that wake, in the order of their bits.
func WakeNames() []string { return wakeNames[:] }

// Names lists what woke, nil for the timer alone.
func (w Wakes) Names() (names []string) {
	for i, name := range wakeNames {
		if w.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// A Line is an amount of a signal of memory below which a threshold is crossed.
type Line struct {
	Signal Signal
	At     Amount // available
}
