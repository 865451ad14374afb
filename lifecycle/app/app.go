// Package app puts the controller together and runs it: package lifecycle between the API
// server, the metrics, the decision log and the queries of operators.
//
// It makes no decision about nodes and pods, and everything that it starts ends before
// [Run] returns. Beside the controller, the leader deletes records of evictions of nodes that
// are gone, in any mode.
package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/process"
	"plimsoll.dev/plimsoll/internal/reload"
	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

// Options are the parameters of a controller that are not in its configuration.
type Options struct {
	Version, Revision string    // of the program
	Out               io.Writer // receives the log and the decisions, in lines
	// Source is where the configuration was loaded from; nil: it does not change.
	Source *config.Source
}

// Run puts the controller together and runs it until ctx ends. Returns an error if the
// configuration names no API server, an address can not be opened, or the wall clock was
// set back.
func Run(ctx context.Context, c *config.Controller, o Options) error {
	lines := decisionlog.NewLinesOf(o.Out, decisionlog.LargerBacklog)
	defer lines.Close()
	level := &process.Level{}
	level.Set(c.Verbosity)
	log := process.NewLogger(c.LoggingFormat, level, lines)
	process.SetMemoryLimit(log)
	for _, w := range c.Warnings() {
		log.Warn(w)
	}
	clients, err := client.Dial(client.Options{Kubeconfig: c.Kubeconfig, Timeout: c.RenewDeadline / 2, UserAgent: "plimsoll-controller/" + o.Version})
	if err != nil {
		return err
	}
	settings, err := settingsOf(c)
	if err != nil {
		return err
	}
	obs := &observer{lines: lines}
	obs.watch = reload.New(reload.Options[config.Controller]{
		Source: cmp.Or(o.Source, config.NewSource("", &options.Flags{})), Current: c, Log: log,
		Apply: func(next *config.Controller) {
			level.Set(next.Verbosity)
			for _, w := range next.Warnings() {
				log.Warn(w)
			}
			obs.controller.Reconfigure(next.Policy())
		},
	})
	obs.metrics = newMetrics(o, lines, obs)
	obs.controller = lifecycle.New(settings, c.Policy(), lifecycle.Parts{
		Watching: clients.Watching, Writing: clients.Writing, Electing: clients.Electing,
		Requested: requestOfPod, Decided: obs.logDecision, Meters: metersOf(obs.metrics), Log: log,
	})
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := obs.serve(ctx, c, client.Review(clients.Writing), &group, log); err != nil {
		return err
	}
	if c.EvictionRecordNamespace != "" && !c.DryRun {
		expiry := &store.Expiry{Client: clients.Writing, Namespace: c.EvictionRecordNamespace, Leads: obs.controller.Leads, Nodes: obs.controller.Nodes, Log: log}
		group.Go(func() { expiry.Run(ctx) })
	}
	group.Go(func() { obs.watch.Run(ctx) })
	log.Info("Started controller", "server", clients.Server, "mode", c.Mode, "dryRun", c.DryRun, "identity", settings.Election.Identity, "pid", os.Getpid())
	err = obs.controller.Run(ctx)
	log.Info("Stopped controller")
	return err
}

// requestTimeout bounds each request that writes, and each live read.
const requestTimeout = 10 * time.Second

// settingsOf converts a configuration. Returns an error if one of its words is unknown.
func settingsOf(c *config.Controller) (lifecycle.Settings, error) {
	mode, err := lifecycle.ParseMode(c.Mode)
	if err != nil {
		return lifecycle.Settings{}, err
	}
	method, err := lifecycle.ParseMethod(c.PodEvictionMethod)
	if err != nil {
		return lifecycle.Settings{}, err
	}
	id, err := identity()
	if err != nil {
		return lifecycle.Settings{}, err
	}
	return lifecycle.Settings{
		Mode: mode, DryRun: c.DryRun,
		EvictionMethod: method, EvictionWait: c.PodEvictionWait,
		QPS: c.KubeAPIQPS, Burst: int(c.KubeAPIBurst), EventQPS: c.EventQPS, RequestTimeout: requestTimeout,
		AgentNamespace: c.HeartbeatNamespace,
		OtherWriters:   lifecycle.DefaultOtherWriters, OtherWriterWindow: c.ConflictWindow,
		Election: lifecycle.Election{
			Enabled: c.LeaderElect, Namespace: c.ResourceNamespace, Name: c.ResourceName, Identity: id,
			LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		},
	}, nil
}

// identity returns a name for this replica, unique even among replicas of one host.
func identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find a name for this replica by the host's: %w", err)
	}
	return host + "_" + rand.Text(), nil
}

func metersOf(m *metrics.Controller) lifecycle.Meters {
	return lifecycle.Meters{
		Decided: m.Decided, Tainted: m.Tainted, PodDeleted: m.PodDeleted, Request: m.Request,
		EventDropped: m.EventDropped, Checked: m.Checked, Leading: m.Leading,
	}
}
