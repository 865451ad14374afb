package lifecycle

import (
	"log/slog"
	"sync"
)

// maxWarnings is the maximum number of stored warnings.
const maxWarnings = 10_000

// warnings logs parts of API objects that are not understood, once each.
type warnings struct {
	log    *slog.Logger
	mu     sync.Mutex
	logged map[[2]string]bool
}

func (d *warnings) once(object, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := [2]string{object, what}; !d.logged[key] {
		if d.logged == nil || len(d.logged) >= maxWarnings {
			d.logged = map[[2]string]bool{}
		}
		d.logged[key] = true
		d.log.Warn("Ignored invalid fields of an object", "object", object, "reason", what)
	}
}
