// Package app puts the controller together and runs it: package lifecycle between the API
// server, the metrics, the decision log and the questions of operators.
//
// It decides nothing about nodes and pods. Everything that it starts ends before [Run]
// returns.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/process"
	"plimsoll.dev/plimsoll/lifecycle"
)

// Options are what a controller is told by its program, and not by its configuration.
type Options struct {
	Version, Revision string    // of the program
	Out               io.Writer // of the log and of decisions, both in lines
}

// Run puts the controller together and runs it until ctx ends. Returns an error if the
// configuration names no API server, or an address can not be opened.
func Run(ctx context.Context, c *config.Controller, o Options) error {
	lines := nodestatus.NewLinesOf(o.Out, nodestatus.LargerBacklog)
	defer lines.Close()
	log := process.NewLogger(c.LoggingFormat, c.Verbosity, lines)
	process.SetMemoryLimit(log)
	for _, w := range c.Warnings() {
		log.Warn(w)
	}
	clients, err := client.Dial(client.Options{Kubeconfig: c.Kubeconfig, Timeout: c.RenewDeadline / 2, UserAgent: "plimsoll-controller/" + o.Version})
	if err != nil {
		return err
	}
	settings, err := controllerSettings(c)
	if err != nil {
		return err
	}
	w := &observer{lines: lines}
	w.metrics = newControllerMetrics(o, lines, w.census)
	w.controller = lifecycle.New(settings, c.Policy(), lifecycle.Parts{
		Watching: clients.Watching, Writing: clients.Writing, Electing: clients.Electing,
		Requested: requested, RequestedIn: requestedIn, Decided: w.logDecision, Meters: metersOf(w.metrics), Log: log,
	})
	var crew sync.WaitGroup
	defer crew.Wait()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if err := w.serve(ctx, c, client.Review(clients.Writing), &crew, log); err != nil {
		return err
	}
	log.Info("watching", "server", clients.Server, "mode", c.Mode, "dryRun", c.DryRun, "identity", settings.Election.Identity, "pid", os.Getpid())
	w.controller.Run(ctx)
	log.Info("stopped")
	return nil
}

// requestTimeout of each request that writes, and of live reads.
const requestTimeout = 10 * time.Second

func controllerSettings(c *config.Controller) (lifecycle.Settings, error) {
	mode, err := lifecycle.ParseMode(c.Mode)
	if err != nil {
		return lifecycle.Settings{}, err
	}
	method, err := lifecycle.ParseMethod(c.PodEvictionMethod)
	if err != nil {
		return lifecycle.Settings{}, err
	}
	me, err := identity()
	if err != nil {
		return lifecycle.Settings{}, err
	}
	return lifecycle.Settings{
		Mode: mode, DryRun: c.DryRun,
		EvictionMethod: method, EvictionWait: c.PodEvictionWait,
		QPS: c.KubeAPIQPS, Burst: int(c.KubeAPIBurst), EventQPS: c.EventQPS, RequestTimeout: requestTimeout,
		AgentNamespace: c.HeartbeatNamespace,
		OtherWriters:   lifecycle.DefaultOtherWriters, OtherWriterWindow: c.OtherWriterWindow,
		Election: lifecycle.Election{
			Enabled: c.LeaderElect, Namespace: c.ResourceNamespace, Name: c.ResourceName, Identity: me,
			LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		},
	}, nil
}

// identity tells replicas apart, also two on one host.
func identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find a name for this replica by the host's: %w", err)
	}
	return host + "_" + rand.Text(), nil
}

// serve answers probes, scrapes and questions. Returns an error if an address or the
// socket can not be opened: whether anything decides would be unknown.
func (w *observer) serve(ctx context.Context, c *config.Controller, review healthz.Review, crew *sync.WaitGroup, log *slog.Logger) error {
	all, err := healthz.Open(ctx, healthz.Addresses{Socket: c.HealthSocket, TCP: c.HealthzBindAddress, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile}, healthz.Settings{
		Live:    []healthz.Check{{Name: "loop", Err: w.controller.Live}},
		Ready:   []healthz.Check{{Name: "cluster", Err: w.controller.Ready, Note: w.role}},
		Metrics: w.metrics.Handler(),
		Explain: w,
		Log:     log,
	}, review)
	if err != nil {
		return errors.Join(err, all.Close())
	}
	all.Run(ctx, crew, log)
	return nil
}

func metersOf(m *metrics.Controller) lifecycle.Meters {
	return lifecycle.Meters{
		Decided: m.Decided, Tainted: m.Tainted, PodDeleted: m.PodDeleted, Request: m.Request,
		EventDropped: m.EventDropped, Looked: m.Looked, Leading: m.Leading,
	}
}
