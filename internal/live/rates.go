package live

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Times over which changes are measured.
const (
	// historyStep and historyLength give the rates of disks and PIDs: a minute.
	historyStep   = 9 * time.Second
	historyLength = 7
	// growthWindow is the minimum time between two stored values of a pod.
	growthWindow = 9 * time.Second
)

// history has observations of one signal at different times, of one epoch. Recordings have rates of memory alone.
type history struct {
	seen [historyLength]signals.Observation
	n    int
}

// add adds an observation. One without a time, or an unknown one, ends the history.
func (h *history) add(o *signals.Observation) {
	switch {
	case !o.Known || o.Time.IsZero():
		h.n = 0
		return
	case h.n > 0 && o.Epoch != h.seen[h.n-1].Epoch:
		h.n = 0
	case h.n > 1 && o.Time.Sub(h.seen[h.n-2].Time) < historyStep:
		h.n-- // the last one is replaced
	case h.n == historyLength:
		copy(h.seen[:], h.seen[1:])
		h.n--
	}
	h.seen[h.n] = *o
	h.n++
}

// rate returns the decrease from the first to the last observation; zero if it is unknown.
func (h *history) rate() signals.Rate {
	if h.n < 2 {
		return signals.Rate{}
	}
	first, last := &h.seen[0], &h.seen[h.n-1]
	return signals.Rate{By: first.Available.Plus(-last.Available), Over: last.Time.Sub(first.Time)}
}

// growth has the memory of a pod at three times. The zero value has none.
type growth struct{ older, newer, now memoryAt }

type memoryAt struct {
	at    time.Time
	bytes int64
}

// with returns the growth with a later value.
func (g growth) with(at time.Time, bytes int64) growth {
	if g.newer.at.IsZero() || at.Sub(g.newer.at) >= growthWindow {
		g.older, g.newer = g.newer, memoryAt{at, bytes}
	}
	g.now = memoryAt{at, bytes}
	return g
}

// perSecond returns the growth in bytes per second since the older value, or the newer one without it; nil if there is
// no earlier value.
func (g growth) perSecond() *int64 {
	base := g.older
	if base.at.IsZero() {
		base = g.newer
	}
	over := g.now.at.Sub(base.at)
	if base.at.IsZero() || over <= 0 {
		return nil
	}
	const most = 1 << 62 // of memory that no machine has; its conversion is exact
	n := int64(max(-most, min((float64(g.now.bytes)-float64(base.bytes))/over.Seconds(), most)))
	return &n
}
