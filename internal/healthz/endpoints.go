package healthz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// Addresses are the addresses to serve on. An empty one is not served.
type Addresses struct {
	Socket string // path of a Unix socket
	TCP    string // IP address and port

	// CertFile and KeyFile contain the certificate of an address beyond loopback. If they are
	// empty, one is created at the start.
	CertFile, KeyFile string
}

// Endpoints are open listeners, each with its server.
type Endpoints []Endpoint

// Endpoint is an open listener with its server.
type Endpoint struct {
	listener net.Listener
	server   *Server
}

// Address returns the address of the listener.
func (e Endpoint) Address() net.Addr { return e.listener.Addr() }

// Open opens the socket and the address. The socket and loopback serve everything over HTTP. Other
// addresses use HTTPS and review tokens where a right is needed. Returns the endpoints that could
// be opened, and the errors of the others.
func Open(ctx context.Context, a Addresses, s Settings, review Review) (all Endpoints, err error) {
	if a.Socket != "" {
		l, failed := ListenSocket(ctx, a.Socket)
		if failed == nil {
			local := s
			local.Limits = SocketLimits
			all = append(all, Endpoint{l, New(local)})
		}
		err = failed
	}
	if a.TCP == "" {
		return all, err
	}
	s.Limits = TCPLimits
	l, failed := Listen(ctx, a.TCP)
	if failed != nil {
		return all, errors.Join(err, failed)
	}
	if BeyondLoopback(l.Addr().String()) {
		s.Access = NewAccess(review)
		if s.TLS, failed = TLS(a.CertFile, a.KeyFile, s.Log); failed != nil {
			return all, errors.Join(err, failed, l.Close())
		}
		if review == nil {
			s.Log.Warn("Metrics and details are refused on this address: without an API server no token can be reviewed", "address", a.TCP, "remedy", "--healthz-bind-address on 127.0.0.1")
		}
	}
	return append(all, Endpoint{l, New(s)}), err
}

// Run serves in goroutines of the group until ctx ends.
func (all Endpoints) Run(ctx context.Context, group *sync.WaitGroup, log *slog.Logger) {
	for _, e := range all {
		log.Info("Serving endpoints", "address", fmt.Sprint(e.Address()))
		group.Go(func() {
			if err := e.server.Run(ctx, e.listener); err != nil {
				log.Error("Failed to serve endpoints", "address", fmt.Sprint(e.Address()), "error", err)
			}
		})
	}
}

// Close closes the listeners of endpoints that do not run. Returns the errors of all listeners.
func (all Endpoints) Close() (err error) {
	for _, e := range all {
		err = errors.Join(err, e.listener.Close())
	}
	return err
}

// BeyondLoopback reports whether other machines may reach an address.
func BeyondLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !net.ParseIP(host).IsLoopback()
}
