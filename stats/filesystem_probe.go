package stats

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// probe queries one filesystem. A failed disk or server blocks the calling thread without
// limit, in a state that no signal interrupts. A query therefore runs in a goroutine, at most
// one per probe, and callers wait with their own deadlines. It is safe for concurrent use.
type probe struct {
	query func(dir string) (filesystem, error)

	mu        sync.Mutex
	dir       string
	last      answer
	pending   chan struct{} // closed at the end of the current query; nil without one
	abandoned bool          // a caller has stopped waiting for the current query
	identity  identity      // of the last successful answer
	known     bool          // there was a successful answer
}

// answer is the result of one query.
type answer struct {
	filesystem
	err  error
	dir  string    // the queried directory
	at   time.Time // time of the query
	late bool      // it arrived after a caller had stopped waiting
}

// lateFor is the time for which a late answer serves further callers. Without it, a filesystem
// that is slightly slower than every caller's deadline would stay unknown forever.
const lateFor = time.Minute

// move sets the directory of further queries.
func (p *probe) move(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != dir {
		p.dir, p.known = dir, false
	}
}

// begin ensures that an answer from that time or later exists or is being awaited. wait is nil
// if it exists.
func (p *probe) begin(requested time.Time) (a answer, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil && !p.fresh(requested) {
		p.pending, p.abandoned = make(chan struct{}), false
		go p.runQuery(p.dir, time.Now())
	}
	return p.last, p.pending
}

func (p *probe) fresh(requested time.Time) bool {
	return p.last.dir == p.dir && !p.last.at.Before(requested)
}

func (p *probe) runQuery(dir string, at time.Time) {
	found, err := p.query(dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{found, err, dir, at, p.abandoned}
	if err == nil && dir == p.dir {
		p.identity, p.known = found.identity, true
	}
	close(p.pending)
	p.pending = nil
}

// answer returns an answer from that time or later, or a late one. Its error is set if there is
// none before ctx ends.
func (p *probe) answer(ctx context.Context, requested time.Time) answer {
	for {
		a, wait := p.begin(requested)
		if wait == nil {
			return a
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return p.abandon(requested)
		}
	}
}

func (p *probe) abandon(requested time.Time) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = p.pending != nil
	if p.fresh(requested) || p.last.late && p.last.dir == p.dir && time.Since(p.last.at) < lateFor {
		return p.last
	}
	return answer{err: fmt.Errorf("statfs %s has not answered in time: the disk or the server behind it may hang, see the kernel's log", p.dir)}
}

// knownIdentity returns the identity of the filesystem, if it has ever answered.
func (p *probe) knownIdentity() (identity, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity, p.known
}
