package reload

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/internal/options"
)

// Period is the interval between two polls. A change applies after two of them. A poll of a file of
// 2 KB takes 20 µs.
const Period = 5 * time.Second

// maxProblems bounds the problems of a refusal that are stored and logged.
const maxProblems = 20

// Options configure a [Watch].
type Options[C any] struct {
	Source  *options.Source[C]
	Current *C // of the last Load of the source
	// Apply receives each accepted configuration that differs from the one before, after it is the
	// Config of the watch. It must not block.
	Apply func(next *C)
	Log   *slog.Logger
}

// Watch polls a configuration file. See [New].
type Watch[C any] struct {
	Options[C]
	state atomic.Pointer[state[C]]

	last finding // of the last poll
}

// state is the result of all polls so far. It is immutable.
type state[C any] struct {
	config  *C
	sum     string // of the file
	since   time.Time
	changes []options.Change // from the previous configuration
	applied int
	refused *Refusal
	refuses int // refusals so far
}

// finding is what a poll has found: the sum of the file, or why it cannot be read.
type finding struct{ sum, fault string }

// Cause is the reason for a [Refusal].
type Cause string

// The causes.
const (
	Invalid    Cause = "invalid"    // the content is not valid
	Restart    Cause = "restart"    // a changed option needs a restart
	Unreadable Cause = "unreadable" // the file cannot be read
)

// remedies are what to do about a refusal.
var remedies = map[Cause]string{
	Invalid:    "correct the file; plimsoll config check lists every fault",
	Restart:    "restart the program, or undo these changes to have the others applied",
	Unreadable: "restore the file; the program does not start without it",
}

// Refusal is a change that is not applied. It holds until the file changes again.
type Refusal struct {
	At       time.Time `json:"at"`
	Sum      string    `json:"sha256,omitempty"` // of the file; empty if it cannot be read
	Cause    Cause     `json:"cause"`
	Problems []string  `json:"problems"` // faults, or changes that need a restart
	Remedy   string    `json:"remedy"`
}

// Error returns the refusal in one line.
func (r *Refusal) Error() string {
	return "the changed configuration is refused (" + string(r.Cause) + "): " + strings.Join(r.Problems, "; ") + ": " + r.Remedy
}

// New returns a watch. Without a watchable file its Run returns at once, and the configuration stays.
func New[C any](o Options[C]) *Watch[C] {
	w := &Watch[C]{Options: o}
	w.state.Store(&state[C]{config: o.Current, sum: o.Source.Sum(), since: time.Now()})
	return w
}

// Config returns the configuration in force. Any goroutine may call it.
func (w *Watch[C]) Config() *C { return w.state.Load().config }

// Run polls the file until ctx ends.
func (w *Watch[C]) Run(ctx context.Context) {
	if !w.Source.IsWatchable() {
		if w.Source.Path() != "" {
			w.Log.Info("The configuration is no regular file, not watching it for changes", "config", w.Source.Path())
		}
		return
	}
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		w.poll(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll reads the file once, and considers it if the poll before has read the same.
func (w *Watch[C]) poll(now time.Time) {
	data, err := w.Source.Read()
	found := finding{}
	if err != nil {
		found.fault = err.Error()
	} else {
		found.sum = options.Sum(data)
	}
	before := w.last
	if w.last = found; found != before {
		return
	}
	s := w.state.Load()
	switch {
	case err == nil && found.sum == s.sum:
		w.resume(s)
	case s.refused != nil && (finding{s.refused.Sum, s.refused.fault()}) == found:
	case err != nil:
		w.refuse(s, Refusal{At: now, Cause: Unreadable, Problems: []string{found.fault}})
	default:
		w.consider(s, data, found.sum, now)
	}
}

// fault returns the finding of a file that cannot be read.
func (r *Refusal) fault() string {
	if r.Cause == Unreadable {
		return r.Problems[0]
	}
	return ""
}

// resume ends a refusal, since the file is again the one in force.
func (w *Watch[C]) resume(s *state[C]) {
	if s.refused == nil {
		return
	}
	next := *s
	next.refused = nil
	w.state.Store(&next)
	w.Log.Info("The configuration file is again the one in force", "config", w.Source.Path(), "sha256", s.sum)
}

// consider applies a content of the file, or refuses it.
func (w *Watch[C]) consider(s *state[C], data []byte, sum string, now time.Time) {
	config, err := w.Source.Parse(data)
	if err != nil {
		w.refuse(s, Refusal{At: now, Sum: sum, Cause: Invalid, Problems: strings.Split(err.Error(), "\n")})
		return
	}
	changes := w.Source.Changes(s.config, config)
	if fixed := texts(changes, false); len(fixed) > 0 {
		w.refuse(s, Refusal{At: now, Sum: sum, Cause: Restart, Problems: fixed})
		return
	}
	next := &state[C]{config: config, sum: sum, since: now, changes: changes, applied: s.applied + 1, refuses: s.refuses}
	if len(changes) == 0 { // comments, or the order of lines
		next.config, next.changes = s.config, s.changes
	}
	w.state.Store(next)
	if len(changes) > 0 {
		w.Apply(config)
	}
	w.Log.Info("Applied a changed configuration", "config", w.Source.Path(), "sha256", sum, "changes", strings.Join(texts(changes, true), "; "))
}

// texts returns the changes of options that are live, or that are not.
func texts(changes []options.Change, live bool) (all []string) {
	for _, c := range changes {
		if c.Live == live {
			all = append(all, c.String())
		}
	}
	return all
}

func (w *Watch[C]) refuse(s *state[C], r Refusal) {
	if n := len(r.Problems) - maxProblems; n > 0 {
		r.Problems = append(r.Problems[:maxProblems:maxProblems], "and more")
	}
	r.Remedy = remedies[r.Cause]
	next := *s
	next.refused, next.refuses = &r, s.refuses+1
	w.state.Store(&next)
	w.Log.Error("Refused a changed configuration, the previous one stays in force", "config", w.Source.Path(), "sha256", r.Sum,
		"cause", string(r.Cause), "problems", strings.Join(r.Problems, "; "), "remedy", r.Remedy)
}
