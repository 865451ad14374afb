package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// manifestsPeriod is the interval between readings of all manifests, for changes without a
// notification, as on a network file system.
const manifestsPeriod = time.Minute

// manifests are the pods of a directory, read beside the loop, which must not wait for a
// disk.
type manifests struct {
	directory *agentpods.Directory
	log       *slog.Logger
	latest    atomic.Pointer[[]signals.Pod]
	lastFault atomic.Pointer[string] // the fault of the last reading
}

// openManifests reads the directory once.
func openManifests(path string, choices *agentpods.Choices, log *slog.Logger) *manifests {
	m := &manifests{directory: agentpods.NewDirectory(path, choices), log: log}
	m.latest.Store(&[]signals.Pod{})
	m.lastFault.Store(new(string))
	m.read()
	return m
}

// pods returns the pods of the latest reading. Any goroutine may call it.
func (m *manifests) pods() []signals.Pod { return *m.latest.Load() }

// fault implements podSource.
func (m *manifests) fault() error {
	if fault := *m.lastFault.Load(); fault != "" {
		return fmt.Errorf("not all manifests can be used: %s", fault)
	}
	return nil
}

// watch reads manifests after each change that the kernel notifies, until ctx ends. It first reads
// those that changed before the notifications began.
func (m *manifests) watch(ctx context.Context, path string) {
	var changes <-chan fsnotify.Event
	var lost <-chan error // notifications
	if w, err := watchDirectory(path); err != nil {
		m.log.Warn("Cannot watch the pod manifests, reading them every minute", "error", err)
	} else {
		defer w.Close()
		changes, lost = w.Events, w.Errors
	}
	tick := time.NewTicker(manifestsPeriod)
	defer tick.Stop()
	for {
		m.read()
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-lost:
		case <-tick.C:
		}
	}
}

func watchDirectory(path string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	if err := w.Add(path); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", path, err), w.Close())
	}
	return w, nil
}

func (m *manifests) read() {
	changed, err := m.directory.Refresh()
	if changed {
		found := m.directory.Pods()
		m.latest.Store(&found)
		m.log.Info("Read the pod manifests", "pods", len(found))
	}
	if err == nil && !changed {
		return // the last fault stays in place
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != *m.lastFault.Load() {
		for line := range strings.SplitSeq(fault, "\n") {
			if line != "" {
				m.log.Error("Cannot use a pod manifest, its pod is not evicted", "error", line)
			}
		}
	}
	m.lastFault.Store(&fault)
}
