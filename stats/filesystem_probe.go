package stats

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A probe asks for one filesystem. A disk that dies or a server that is gone
// keeps whoever asks for ever, in a state in which not even a signal ends it:
// so the asking is done by a goroutine, of which there is never more than one,
// and whoever wants the answer waits for as long as they like. It is safe for
// concurrent use.
type probe struct {
	ask func(dir string) (filesystem, error)

	mu        sync.Mutex
	dir       string
	last      answer
	pending   chan struct{} // closed when the question under way is answered; nil if none is
	abandoned bool          // somebody has stopped waiting for the question under way
	identity  identity      // by the last answer that was no error
	known     bool          // whether there was one
}

// An answer of a probe.
type answer struct {
	filesystem
	err  error
	dir  string    // what was asked for
	at   time.Time // when it was asked for
	late bool      // it came after somebody had stopped waiting
}

// lateFor is for how long an answer that nobody waited for any more serves
// those who ask next. Without that, a filesystem that takes a little longer
// than anybody waits would be unknown for ever.
const lateFor = time.Minute

// move makes the probe ask for another directory from now on.
func (p *probe) move(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != dir {
		p.dir, p.known = dir, false
	}
}

// begin sees to it that an answer to a question asked at the time or later
// exists or is waited for; wait is nil if it exists.
func (p *probe) begin(asked time.Time) (a answer, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil && !p.fresh(asked) {
		p.pending, p.abandoned = make(chan struct{}), false
		go p.question(p.dir, time.Now())
	}
	return p.last, p.pending
}

func (p *probe) fresh(asked time.Time) bool {
	return p.last.dir == p.dir && !p.last.at.Before(asked)
}

func (p *probe) question(dir string, at time.Time) {
	found, err := p.ask(dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{found, err, dir, at, p.abandoned}
	if err == nil && dir == p.dir {
		p.identity, p.known = found.identity, true
	}
	close(p.pending)
	p.pending = nil
}

// answer returns what the kernel said when asked at the time or later, or in a
// late answer; where it has said nothing before ctx ends, that is the error.
func (p *probe) answer(ctx context.Context, asked time.Time) answer {
	for {
		a, wait := p.begin(asked)
		if wait == nil {
			return a
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return p.giveUp(asked)
		}
	}
}

func (p *probe) giveUp(asked time.Time) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = p.pending != nil
	if p.fresh(asked) || p.last.late && p.last.dir == p.dir && time.Since(p.last.at) < lateFor {
		return p.last
	}
	return answer{err: fmt.Errorf("statfs %s has not answered in time: the disk or the server behind it may hang, see the kernel's log", p.dir)}
}

// is returns which filesystem it is, if it ever answered.
func (p *probe) is() (identity, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity, p.known
}
