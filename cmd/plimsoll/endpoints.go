package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/options"
)

// An opened listener, and the server for it.
type opened struct {
	listener net.Listener
	server   *healthz.Server
}

// openEndpoints opens the socket and the address of a configuration. All is served
// on the socket and on loopback; on other addresses by HTTPS, and what needs a
// right by reviews. Returns those that could be opened, and the errors of the
// others.
func openEndpoints(ctx context.Context, address string, c *options.Endpoints, s healthz.Settings, review healthz.Review) (all []opened, err error) {
	if c.HealthSocket != "" {
		l, failed := healthz.ListenSocket(ctx, c.HealthSocket)
		if failed == nil {
			local := s
			local.Limits = healthz.SocketLimits
			all = append(all, opened{l, healthz.New(local)})
		}
		err = failed
	}
	if address == "" {
		return all, err
	}
	s.Limits = healthz.TCPLimits
	l, failed := healthz.Listen(ctx, address)
	if failed != nil {
		return all, errors.Join(err, failed)
	}
	if beyondLoopback(l.Addr().String()) {
		s.Access = healthz.NewAccess(review)
		if s.TLS, failed = healthz.TLS(c.TLSCertFile, c.TLSPrivateKeyFile, s.Log); failed != nil {
			return all, errors.Join(err, failed, l.Close())
		}
		if review == nil {
			s.Log.Warn("Metrics and details are refused on this address: without an API server no token can be reviewed", "address", address, "remedy", "--healthz-bind-address on 127.0.0.1")
		}
	}
	return append(all, opened{l, healthz.New(s)}), err
}

// runEndpoints serves until ctx ends.
func runEndpoints(ctx context.Context, all []opened, crew *sync.WaitGroup, log *slog.Logger) {
	for _, o := range all {
		log.Info("Serving endpoints", "address", fmt.Sprint(o.listener.Addr()))
		crew.Go(func() {
			if err := o.server.Run(ctx, o.listener); err != nil {
				log.Error("Failed to serve endpoints", "address", fmt.Sprint(o.listener.Addr()), "error", err)
			}
		})
	}
}

// beyondLoopback reports whether other machines may reach an address.
func beyondLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !net.ParseIP(host).IsLoopback()
}
