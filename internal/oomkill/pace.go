package oomkill

import (
	"cmp"
	"time"
)

// Pace bounds reports of kills. Kills that are not reported are counted into the next report with the
// same key, for at most 512 keys.
type Pace struct {
	Burst  int           // reports at once
	Refill time.Duration // until a further one is admitted
	// Repeats is the part of Burst for keys that were reported within the last PerKey. So a pod with
	// many kills does not suppress the first report about another one.
	Repeats int
	PerKey  time.Duration

	full time.Time // when all Burst reports are available again
	keys map[string]pending
}

// pending is what a key waits for.
type pending struct {
	last  time.Time // admitted report
	kills int       // since then
}

// maxKeys bounds the stored keys.
const maxKeys = 512

// Admit reports whether kills with a key are reported now, and for how many kills the report stands.
func (p *Pace) Admit(key string, kills int, now time.Time) (total int, admitted bool) {
	waiting := p.keys[key]
	total = waiting.kills + kills
	if p.full.Before(now) {
		p.full = now
	}
	burst := p.Burst
	if !waiting.last.IsZero() && now.Sub(waiting.last) < p.PerKey {
		burst = p.Repeats
	}
	if p.full.Sub(now) > time.Duration(burst-1)*p.Refill {
		p.store(key, pending{waiting.last, total})
		return total, false
	}
	p.full = p.full.Add(p.Refill)
	p.store(key, pending{last: now})
	return total, true
}

// store stores what a key waits for, in place of the oldest one if there are too many.
func (p *Pace) store(key string, waits pending) {
	if p.keys == nil {
		p.keys = map[string]pending{}
	}
	if _, known := p.keys[key]; !known && len(p.keys) >= maxKeys {
		oldest := key
		for other, w := range p.keys {
			if oldest == key || cmp.Or(w.last.Compare(p.keys[oldest].last), cmp.Compare(other, oldest)) < 0 {
				oldest = other
			}
		}
		delete(p.keys, oldest)
	}
	p.keys[key] = waits
}
