package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// agentRun is a run of an agent.
type agentRun struct {
	header   *recording.Header
	version  string
	node     string
	system   string    // cgroup version, kernel
	from, to time.Time // of its values in the report; zero without any

	config   *config.Agent // as of the last check; nil: it cannot be read
	changed  bool          // since the last check
	problem  string        // why not
	policies map[signals.Layout]*eviction.Policy
}

func newAgentRun(h *recording.Header) *agentRun {
	const unknown = "unknown"
	r := &agentRun{
		version: cmp.Or(printable(h.Version, maxNote), unknown), node: cmp.Or(printable(h.Node, maxNote), unknown),
		system: fmt.Sprintf("Linux %s, cgroup v%d", cmp.Or(printable(h.Kernel, maxNote), unknown), h.CgroupVersion)}
	r.configure(h)
	return r
}

// configure sets the configuration of a segment.
func (r *agentRun) configure(h *recording.Header) {
	r.header, r.config, r.policies = h, nil, map[signals.Layout]*eviction.Policy{}
	if len(h.Config) == 0 {
		r.problem = "it is not recorded"
		return
	}
	var err error
	if r.config, err = config.ParseFile(h.Config); err != nil {
		r.config, r.problem = nil, oneLine(err)
	}
}

// oneLine returns the text of an error, which may have a line for each fault.
func oneLine(err error) string {
	return printable(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), maxText)
}

// policy returns the policy of a check; nil if the configuration cannot be read.
func (r *agentRun) policy(layout signals.Layout) *eviction.Policy {
	if r.config == nil {
		return nil
	}
	p, known := r.policies[layout]
	if !known {
		var err error
		if p, err = r.config.Policy(layout); err != nil {
			r.problem = oneLine(err)
		}
		r.policies[layout] = p
	}
	return p
}

// defaultPeriod is the time between two periodic checks if the configuration is not known.
const defaultPeriod = 10 * time.Second

// pause is the time between two values from which on some are missing.
func (r *agentRun) pause(least time.Duration) time.Duration {
	period := defaultPeriod
	if r.config != nil {
		period = r.config.MonitoringPeriod
	}
	return 3*max(min(period, time.Hour), least) + time.Second
}
