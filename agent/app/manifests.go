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

// filesPeriod is how often every manifest is looked at, in case a change was not
// notified, as by a network file system.
const manifestsPeriod = time.Minute

// manifests keeps the pods of a directory up to date beside the loop, which
// must not wait for a disk.
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

// pods are those of the latest reading. Any goroutine may ask.
func (m *manifests) pods() []signals.Pod { return *m.latest.Load() }

// fault implements podSource.
func (m *manifests) fault() error {
	if told := *m.lastFault.Load(); told != "" {
		return fmt.Errorf("not all manifests can be used: %s", told)
	}
	return nil
}

// watch reads what changes until ctx ends: when the kernel says that something
// did, which costs nothing while nothing does.
func (m *manifests) watch(ctx context.Context, path string) {
	var changes <-chan fsnotify.Event
	var lost <-chan error // notifications
	if w, err := watchDirectory(path); err != nil {
		m.log.Warn("changes of manifests are found by looking every minute only", "error", err)
	} else {
		defer w.Close()
		changes, lost = w.Events, w.Errors
	}
	tick := time.NewTicker(manifestsPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-lost:
		case <-tick.C:
		}
		m.read()
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
		m.log.Info("read the pod manifests", "pods", len(found))
	}
	if err == nil && !changed {
		return // a fault that was told stays one
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != *m.lastFault.Load() {
		for line := range strings.SplitSeq(fault, "\n") {
			if line != "" {
				m.log.Error("a pod manifest can not be used: its pod is not evicted", "fault", line)
			}
		}
	}
	m.lastFault.Store(&fault)
}
