package lifecycle

import (
	"log/slog"
	"sync"
)

// mostDoubts bounds what is remembered as said.
const mostDoubts = 10_000

// doubts says once what can not be understood of the API's objects.
type doubts struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[[2]string]bool
}

func (d *doubts) say(object, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := [2]string{object, what}; !d.said[key] {
		if d.said == nil || len(d.said) >= mostDoubts {
			d.said = map[[2]string]bool{}
		}
		d.said[key] = true
		d.log.Warn("an object can not be understood in full", "object", object, "because", what)
	}
}
