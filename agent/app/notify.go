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
func (p *program) openNotifier() *cgroupnotify.Notifier {
	if p.config.Notifications == "off" {
		p.log.Info("notifications of the kernel are switched off: looks come by the timer alone")
		return nil
	}
	n, err := cgroupnotify.Open(cgroupnotify.Options{ProcRoot: p.config.ProcRoot, Hierarchy: p.node.hierarchy,
		NodeCgroup: p.config.NodeCgroup, Places: p.node.places, Report: p.tellSource})
	if err != nil {
		p.log.Warn("the kernel can not notify the agent: looks come by the timer alone", "error", err)
		return nil
	}
	p.close = append(p.close, func() { _ = n.Close() })
	p.node.stalls = stats.OpenStallsAt(p.node.hierarchy, p.config.NodeCgroup, p.node.places)
	for _, s := range n.Sources() {
		p.tellSource(s)
	}
	return n
}

// tellSource tells what notifies, or why something does not.
func (p *program) tellSource(s cgroupnotify.Source) {
	p.metrics.Source(s.Name, s.Where, s.Err == nil)
	if s.Err != nil {
		p.log.Info("not notified", "source", s.Name, "where", s.Where, "reason", s.Err)
		return
	}
	p.log.Info("notified", "source", s.Name, "where", s.Where)
}

// notifications is a line about what notifies and what does not.
func (p *program) notifications() string {
	if p.notifier == nil {
		return "none, looks come by the timer alone"
	}
	var parts []string
	for _, s := range p.notifier.Sources() {
		part := s.Name + " on " + s.Where
		if s.Err != nil {
			part = "not " + part + " (" + s.Err.Error() + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// waits is who waits between looks, and who says whose stall it was.
func (p *program) waits() (agent.Notifier, agent.Stalls) {
	if p.notifier == nil {
		return nil, nil
	}
	return p.notifier, p.node
}

// Stalls implements agent.Stalls.
func (n *node) Stalls() []signals.Stall { return n.stalls.Since(n.pods(), time.Now()) }
