package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/pods"
	"plimsoll.dev/plimsoll/signal"
)

// manifestPeriod is how often the directory of manifests is looked at: so long
// a new pod is unknown. It costs a stat of every file.
const manifestPeriod = time.Second

// manifests keeps the pods of a directory up to date beside the loop, which
// must not wait for a disk.
type manifests struct {
	directory *pods.Directory
	log       *slog.Logger
	latest    atomic.Pointer[[]signal.Pod]
	fault     string // of the last reading, as it was told
}

// openManifests reads the directory once.
func openManifests(path string, log *slog.Logger) *manifests {
	m := &manifests{directory: pods.NewDirectory(path), log: log}
	m.latest.Store(&[]signal.Pod{})
	m.read()
	return m
}

// pods are those of the latest reading. Any goroutine may ask.
func (m *manifests) pods() []signal.Pod { return *m.latest.Load() }

// watch reads what changes until ctx ends.
func (m *manifests) watch(ctx context.Context) {
	tick := time.NewTicker(manifestPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.read()
		}
	}
}

func (m *manifests) read() {
	changed, err := m.directory.Refresh()
	if changed {
		found := m.directory.Pods()
		m.latest.Store(&found)
		m.log.Info("read the pod manifests", "pods", len(found))
	}
	if err == nil && !changed {
		return // a fault that was told stays one
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != m.fault {
		for line := range strings.SplitSeq(fault, "\n") {
			if line != "" {
				m.log.Error("a pod manifest can not be used: its pod is not evicted", "fault", line)
			}
		}
	}
	m.fault = fault
}
