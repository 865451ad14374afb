package cluster

import (
	"net/http"
	"sync"
)

// ice holds back what the server answers to some requests.
type ice struct {
	mu      sync.Mutex
	matches func(*http.Request) bool // nil while nothing is frozen
	thawed  chan struct{}
}

// Freeze lets nothing more pass of the answers to requests that match, those
// under way included, until Thaw: a watch stays open, and tells nothing.
func (f *Front) Freeze(matches func(*http.Request) bool) {
	f.Thaw()
	f.ice.mu.Lock()
	defer f.ice.mu.Unlock()
	f.ice.matches, f.ice.thawed = matches, make(chan struct{})
}

// Thaw lets what was held back pass.
func (f *Front) Thaw() {
	f.ice.mu.Lock()
	defer f.ice.mu.Unlock()
	if f.ice.matches != nil {
		close(f.ice.thawed)
		f.ice.matches = nil
	}
}

// hold waits while answers to the request are frozen.
func (i *ice) hold(r *http.Request) {
	i.mu.Lock()
	frozen, thawed := i.matches != nil && i.matches(r), i.thawed
	i.mu.Unlock()
	if frozen {
		select {
		case <-thawed:
		case <-r.Context().Done(): // the client went away
		}
	}
}

// An icy writer is where every byte of an answer waits.
type icy struct {
	http.ResponseWriter
	request *http.Request
	ice     *ice
}

func (w *icy) Write(b []byte) (int, error) {
	w.ice.hold(w.request)
	return w.ResponseWriter.Write(b)
}

func (w *icy) Unwrap() http.ResponseWriter { return w.ResponseWriter }
