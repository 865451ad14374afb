package lifecycle

import (
	"log/slog"
	"sync"
)

// maxWarnings bounds the number of warnings that are remembered.
const maxWarnings = 10_000

// The warnings log once what cannot be understood of the API's objects.
type warnings struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[[2]string]bool
}

func (d *warnings) once(object, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := [2]string{object, what}; !d.said[key] {
		if d.said == nil || len(d.said) >= maxWarnings {
			d.said = map[[2]string]bool{}
		}
		d.said[key] = true
		d.log.Warn("an object can not be understood in full", "object", object, "because", what)
	}
}
