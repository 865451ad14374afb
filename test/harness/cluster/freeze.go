package cluster

import (
	"net/http"
	"sync"
)

// ice blocks the responses of the server to matching requests.
type ice struct {
	mu      sync.Mutex
	matches func(*http.Request) bool // nil while nothing is frozen
	thawed  chan struct{}
}

// Freeze blocks all further bytes of the responses to matching requests until Thaw, including
// responses in progress: a watch stays open without any event.
func (f *Front) Freeze(matches func(*http.Request) bool) {
	f.Thaw()
	f.ice.mu.Lock()
	defer f.ice.mu.Unlock()
	f.ice.matches, f.ice.thawed = matches, make(chan struct{})
}

// Thaw releases the blocked responses.
func (f *Front) Thaw() {
	f.ice.mu.Lock()
	defer f.ice.mu.Unlock()
	if f.ice.matches != nil {
		close(f.ice.thawed)
		f.ice.matches = nil
	}
}

// hold waits while responses to the request are frozen.
func (i *ice) hold(r *http.Request) {
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

// icy is a response writer that waits in front of every byte.
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
