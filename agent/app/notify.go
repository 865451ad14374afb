package app

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroupnotify"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/stats"
)

// openNotifier finds out what this kernel notifies of; nil leaves the wait to
// the time alone, which is enough for what the agent promises.
func (a *app) openNotifier() *cgroupnotify.Notifier {
	if a.config.Notifications == "off" {
		a.log.Info("notifications of the kernel are switched off: looks come by the timer alone")
		return nil
	}
	n, err := cgroupnotify.Open(cgroupnotify.Options{ProcRoot: a.config.ProcRoot, Hierarchy: a.node.hierarchy,
		NodeCgroup: a.config.NodeCgroup, Places: a.node.places, Report: a.logSource})
	if err != nil {
		a.log.Warn("the kernel can not notify the agent: looks come by the timer alone", "error", err)
		return nil
	}
	a.closers = append(a.closers, func() { _ = n.Close() })
	a.node.stalls = stats.OpenStallsAt(a.node.hierarchy, a.config.NodeCgroup, a.node.places)
	for _, s := range n.Sources() {
		a.logSource(s)
	}
	return n
}

// tellSource tells what notifies, or why something does not.
func (a *app) logSource(s cgroupnotify.Source) {
	a.metrics.Source(s.Name, s.Where, s.Err == nil)
	if s.Err != nil {
		a.log.Info("not notified", "source", s.Name, "where", s.Where, "reason", s.Err)
		return
	}
	a.log.Info("notified", "source", s.Name, "where", s.Where)
}

// notifications is a line about what notifies and what does not.
func (a *app) notifications() string {
	if a.notifier == nil {
		return "none, looks come by the timer alone"
	}
	var parts []string
	for _, s := range a.notifier.Sources() {
		part := s.Name + " on " + s.Where
		if s.Err != nil {
			part = "not " + part + " (" + s.Err.Error() + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// waits is who waits between looks, and who says whose stall it was.
func (a *app) wakers() (agent.Notifier, agent.Stalls) {
	if a.notifier == nil {
		return nil, nil
	}
	return a.notifier, a.node
}

// Stalls implements agent.Stalls.
func (n *node) Stalls() []signals.Stall { return n.stalls.Since(n.pods(), time.Now()) }
