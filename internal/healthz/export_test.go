package healthz

import (
	"cmp"
	"time"
)

// Bounds are the bounds of a server for the time of requests. A zero one is unchanged.
type Bounds struct{ Header, Answer, Shutdown time.Duration }

// SetBounds sets the bounds of a server that does not run yet.
func (s *Server) SetBounds(b Bounds) {
	s.http.ReadHeaderTimeout = cmp.Or(b.Header, s.http.ReadHeaderTimeout)
	s.http.ReadTimeout = cmp.Or(b.Header, s.http.ReadTimeout)
	s.http.WriteTimeout = cmp.Or(b.Answer, s.http.WriteTimeout)
	s.shutdown = cmp.Or(b.Shutdown, s.shutdown)
}
