package healthz

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxHeader bounds the header of a request in bytes.
const maxHeader = 8 << 10

// Bounds bound one request in time. A zero field has its default. [Limits] bound the number of clients.
type Bounds struct {
	Header   time.Duration // for a request to arrive
	Answer   time.Duration // for the transmission of a response, from the end of the header on
	Shutdown time.Duration // for responses in progress when the server ends
}

// defaultBounds are for clients that are near and request little; a longer request is faulty or malicious.
var defaultBounds = Bounds{Header: 2 * time.Second, Answer: 5 * time.Second, Shutdown: 2 * time.Second}

// Settings configure a Server.
type Settings struct {
	// Live are the checks of /livez. A failure causes a restart of the agent, so they depend on the
	// agent alone. /readyz includes them.
	Live []Check
	// Ready are the further checks of /readyz.
	Ready []Check
	// Metrics serves /metrics.
	Metrics http.Handler
	// Explain serves /explain; nil: there is no /explain.
	Explain http.Handler
	// Config serves /configz; nil: there is no /configz.
	Config http.Handler
	// Access authorises /metrics, /explain, /configz, and the details of /livez and /readyz; nil: no
	// authorisation is required.
	Access *Access
	// TLS is the configuration of HTTPS; nil: HTTP.
	TLS *tls.Config
	// Limits bound the connections; the zero value is TCPLimits.
	Limits Limits
	Bounds Bounds // for tests: a paused machine exceeds the default
	Log    *slog.Logger
}

// Server serves /livez, /readyz, /metrics and, if configured, /explain and /configz.
type Server struct {
	http     *http.Server
	tls      *tls.Config
	limits   Limits
	shutdown time.Duration // maximum time for responses in progress when the server ends
}

// New returns a server that does not listen yet.
func New(s Settings) *Server {
	mux := http.NewServeMux()
	live := append([]Check{ping}, s.Live...)
	for _, p := range []*probe{{"livez", live}, {"readyz", append(live[:len(live):len(live)], s.Ready...)}} {
		all := s.Access.guard("/"+p.name+"/verbose", p)
		if s.Access != nil {
			all = p.public(all)
		}
		mux.Handle("GET /"+p.name, all)
		mux.Handle("GET /"+p.name+"/{check}", s.Access.guard("/"+p.name+"/verbose", http.HandlerFunc(p.one)))
	}
	mux.Handle("GET /metrics", s.Access.guard("/metrics", s.Metrics))
	if s.Explain != nil {
		mux.Handle("GET /explain", s.Access.guard("/explain", s.Explain))
	}
	if s.Config != nil {
		mux.Handle("GET /configz", s.Access.guard("/configz", s.Config))
	}
	header := cmp.Or(s.Bounds.Header, defaultBounds.Header)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: header, ReadTimeout: header, WriteTimeout: cmp.Or(s.Bounds.Answer, defaultBounds.Answer),
		MaxHeaderBytes: maxHeader, ConnContext: withConn,
		ErrorLog: log.New(&faults{log: s.Log, pace: bucket{rate: faultRate, burst: faultBurst}}, "", 0),
	}
	// One request per connection: idle ones would count against the number of clients.
	server.SetKeepAlivesEnabled(false)
	if s.Limits == (Limits{}) {
		s.Limits = TCPLimits
	}
	return &Server{http: server, tls: s.TLS, limits: s.Limits, shutdown: cmp.Or(s.Bounds.Shutdown, defaultBounds.Shutdown)}
}

// Handler returns the handler without the bounds for clients.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Listen opens an address of this node, as IP:PORT. Returns an error if the host is no IP
// address: a name could change its meaning.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil && net.ParseIP(host) == nil {
		err = fmt.Errorf("%q is no IP address", host)
	}
	if err != nil {
		return nil, fmt.Errorf("serve endpoints on %q: %w: give it as IP:PORT", address, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve endpoints: %w: give another address, or none", err)
	}
	return l, nil
}

// Run serves connections of l until ctx ends, then closes l and returns nil. Responses in progress
// have up to [Bounds].Shutdown to end. Returns an error if l fails before.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	var bounded net.Listener = newGate(l, s.limits)
	if s.tls != nil {
		bounded = tls.NewListener(bounded, boundHandshakes(s.tls))
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(bounded) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve endpoints on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdown)
	defer cancel()
	if err := s.http.Shutdown(last); err != nil {
		s.http.Close() // the remaining clients exceeded their time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve endpoints on %s: %w", l.Addr(), err)
	}
	return nil
}

// Client errors that are logged: faultBurst at once, faultRate per second later.
const faultRate, faultBurst = 0.1, 5.

// faults logs the HTTP server's errors of connections, at a bounded rate because clients cause
// them.
type faults struct {
	log     *slog.Logger
	mu      sync.Mutex
	pace    bucket
	dropped int
}

// Write logs one line. It returns no error.
func (f *faults) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pace.tryTake(time.Now()) {
		f.dropped++
		return len(line), nil
	}
	f.log.Warn("Failed to serve a client", "error", strings.TrimSpace(string(line)), "dropped", f.dropped)
	f.dropped = 0
	return len(line), nil
}
