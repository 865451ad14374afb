package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds for clients. Who asks is near and asks for little; a request that takes
// longer is broken, or meant to.
const (
	// MostClients is how many connections are served at once. More wait to be
	// accepted.
	MostClients = 32

	mostHeader   = 8 << 10         // bytes
	headerWait   = 2 * time.Second // for a request to arrive
	answerWait   = 5 * time.Second // for an answer to be taken, from the end of the header on
	shutdownWait = 2 * time.Second // for answers under way when the server ends
)

// Settings are what is served.
type Settings struct {
	// Live are the checks of /livez: whoever asks restarts the agent when one
	// fails, so they are about the agent alone. /readyz holds them, too.
	Live []Check
	// Ready are the further checks of /readyz.
	Ready []Check
	// Metrics serves /metrics.
	Metrics http.Handler
	// Explain serves /explain; nil: nobody does.
	Explain http.Handler
	Log     *slog.Logger
}

// A Server answers /livez, /readyz, /metrics and, for who has it, /explain.
type Server struct {
	http *http.Server
}

// New returns a server that does not listen yet.
func New(s Settings) *Server {
	mux := http.NewServeMux()
	live := append([]Check{ping}, s.Live...)
	for _, p := range []*probe{{"livez", live}, {"readyz", append(live[:len(live):len(live)], s.Ready...)}} {
		mux.Handle("GET /"+p.name, p)
		mux.HandleFunc("GET /"+p.name+"/{check}", p.one)
	}
	mux.Handle("GET /metrics", s.Metrics)
	if s.Explain != nil {
		mux.Handle("GET /explain", s.Explain)
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerWait, ReadTimeout: headerWait, WriteTimeout: answerWait,
		MaxHeaderBytes: mostHeader,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	// One request a connection: idle ones would use up the number of clients.
	server.SetKeepAlivesEnabled(false)
	return &Server{http: server}
}

// Handler is what is served, without the bounds for clients.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Listen opens an address of this node, as host:port. The host is an IP address:
// a name could come to mean another one.
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

// Run serves what comes in through l, and closes it, until ctx ends; that is no
// error. Answers under way are finished, but not waited for longer than 2 s.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(netutil.LimitListener(l, MostClients)) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve endpoints on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	if err := s.http.Shutdown(last); err != nil {
		s.http.Close() // who is still reading has had its time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve endpoints on %s: %w", l.Addr(), err)
	}
	return nil
}
