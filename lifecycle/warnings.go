package lifecycle

import (
	"log/slog"
	"strings"
	"sync"
)

const (
	// maxWarnings is the maximum number of stored warnings.
	maxWarnings = 10_000
	// maxWarning is the maximum length of a reason in bytes. It may quote an object of the API.
	maxWarning = 500
)

// warnings logs parts of API objects that are not understood, once each.
type warnings struct {
	log    *slog.Logger
	mu     sync.Mutex
	logged map[[2]string]bool
}

func (d *warnings) once(object, what string) {
	if len(what) > maxWarning {
		what = strings.ToValidUTF8(what[:maxWarning], "") + "…"
	}
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
