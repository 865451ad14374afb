package cluster

import (
	"net/http"
	"sync"
)

// freezer blocks the responses of the server to matching requests.
type freezer struct {
	mu      sync.Mutex
	matches func(*http.Request) bool // nil while nothing is frozen
	thawed  chan struct{}
}

// Freeze blocks all further bytes of the responses to matching requests until Thaw, including
// responses in progress: a watch stays open without any event.
func (f *Front) Freeze(matches func(*http.Request) bool) {
	f.Thaw()
	f.freezer.mu.Lock()
	defer f.freezer.mu.Unlock()
	f.freezer.matches, f.freezer.thawed = matches, make(chan struct{})
}

// Thaw releases the blocked responses.
func (f *Front) Thaw() {
	f.freezer.mu.Lock()
	defer f.freezer.mu.Unlock()
	if f.freezer.matches != nil {
		close(f.freezer.thawed)
		f.freezer.matches = nil
	}
}

// wait waits while responses to the request are frozen.
func (i *freezer) wait(r *http.Request) {
	i.mu.Lock()
	frozen, thawed := i.matches != nil && i.matches(r), i.thawed
	i.mu.Unlock()
	if frozen {
		select {
		case <-thawed:
		case <-r.Context().Done(): // the client disconnected
		}
	}
}

// frozenWriter is a response writer that waits in front of every byte.
type frozenWriter struct {
	http.ResponseWriter
	request *http.Request
	freezer *freezer
}

func (w *frozenWriter) Write(b []byte) (int, error) {
	w.freezer.wait(w.request)
	return w.ResponseWriter.Write(b)
}

func (w *frozenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
