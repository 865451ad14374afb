package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// pairsInOrder are keys with their values, in the order of their addition.
type pairsInOrder []struct{ key, value string }

func (p *pairsInOrder) add(s signals.Signal, value string) { p.set(s.String(), value) }

func (p *pairsInOrder) set(key, value string) {
	*p = append(*p, struct{ key, value string }{key, value})
}

func (p pairsInOrder) get(s signals.Signal) (value string, there bool) {
	for _, pair := range p {
		if pair.key == s.String() {
			return pair.value, true
		}
	}
	return "", false
}

// page builds a document. Values are quoted: a number in YAML may be a string for the reader.
type page struct{ strings.Builder }

func newPage(apiVersion, kind string, comments ...string) *page {
	p := &page{}
	for _, c := range comments {
		fmt.Fprintf(p, "# %s\n", c)
	}
	fmt.Fprintf(p, "apiVersion: %s\nkind: %s\n", apiVersion, kind)
	return p
}

func (p *page) mapping(field string, pairs pairsInOrder) {
	if len(pairs) == 0 {
		fmt.Fprintf(p, "%s: {}\n", field)
		return
	}
	fmt.Fprintf(p, "%s:\n", field)
	for _, pair := range pairs {
		fmt.Fprintf(p, "  %s: %q\n", pair.key, pair.value)
	}
}

func (p *page) scalar(field string, value any) { fmt.Fprintf(p, "%s: %v\n", field, value) }

// agent returns the agent's configuration.
func (p *sharing) agent() []byte {
	comments := []string{"What the kubelet did about evictions, for `plimsoll agent --config`."}
	if p.pods.kubelets.Text != "" {
		comments = append(comments, "For the limit of all pods the kubelet evicts above allocatable, as before, and the agent at half of the kubelet's threshold.",
			"enforceNodeAllocatable: [pods] would apply the whole threshold for memory to that limit, and evict pods that use less than allocatable.")
	}
	out := newPage("plimsoll.dev/v1alpha1", "AgentConfiguration", comments...)
	out.mapping("evictionHard", p.ours)
	p.copyMaps(out, "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")
	if v := p.from.value("evictionMaxPodGracePeriod"); v.Present() {
		out.scalar("evictionMaxPodGracePeriod", v.Int(0))
	}
	out.scalar("evictionPressureTransitionPeriod", p.was.TransitionPeriod)
	switch v := p.from.value("enforceNodeAllocatable"); {
	case p.pods.enforced && p.pods.divided:
		out.scalar("enforceNodeAllocatable", "[none]")
	case v.Present():
		out.scalar("enforceNodeAllocatable", "["+strings.Join(texts(v.List()), ", ")+"]")
	}
	p.copyReserved(out, "kubeReserved", nil)
	p.copyReserved(out, "systemReserved", p.reserved)
	out.scalar("localStorageCapacityIsolation", p.was.StorageLimits)
	if v := p.from.value("volumeStatsAggPeriod"); v.Present() {
		out.scalar("volumeStatsAggPeriod", v.Duration(0))
	}
	gc := p.was.ImageGC
	out.scalar("imageGCHighThresholdPercent", gc.HighPercent)
	out.scalar("imageGCLowThresholdPercent", gc.LowPercent)
	out.scalar("imageMinimumGCAge", gc.MinimumAge)
	out.scalar("imageMaximumGCAge", gc.MaximumAge)
	return []byte(out.String())
}

func texts(values []strictyaml.Value) (all []string) {
	for _, v := range values {
		all = append(all, v.Text())
	}
	return all
}

// copyMaps copies maps by signal, without unknown signals.
func (p *sharing) copyMaps(out *page, names ...string) {
	for _, field := range names {
		var pairs pairsInOrder
		for s := range signals.All {
			if text, there := p.entry(field, s); there {
				pairs.add(s, text)
			}
		}
		if len(pairs) > 0 {
			out.mapping(field, pairs)
		}
	}
}

// entry returns an entry of a map by signal. Those for the limit of all pods are derived.
func (p *sharing) entry(field string, s signals.Signal) (text string, there bool) {
	given := p.from.entries(field)
	v, there := given[s.String()]
	if s == signals.AllocatableMemoryAvailable && p.pods.divided {
		switch soft := p.softOf(s); {
		case field == "evictionSoft" && soft != nil:
			return soft.Text, true
		case field == "evictionMinimumReclaim" && !there && p.pods.kubelets.Text != "":
			v, there = given[signals.MemoryAvailable.String()]
		}
	}
	return v.Text(), there
}

// copyReserved copies a map by resource, with replacements for some entries.
func (p *sharing) copyReserved(out *page, field string, instead map[string]string) {
	all := map[string]string{}
	for key, v := range p.from.entries(field) {
		all[key] = v.Text()
	}
	maps.Copy(all, instead)
	var pairs pairsInOrder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		pairs.set(key, all[key])
	}
	if len(pairs) > 0 {
		out.mapping(field, pairs)
	}
}

// kubelet returns the changes for the kubelet.
func (p *sharing) kubelet() []byte {
	out := newPage(kubeletGroup+"v1beta1", "KubeletConfiguration",
		"Beside `plimsoll agent`: a file *.conf, sorted last, in the directory that the kubelet's --config-dir names.",
		"evictionHard is the backstop of a node without a running agent. evictionSoft reports, and never evicts.",
		"systemReserved withholds what evictionHard does not any more: allocatable stays as it was.")
	if len(p.kubelets) > 0 { // an empty map would restore the defaults
		out.mapping("evictionHard", p.kubelets)
	}
	if len(p.soft) > 0 {
		out.mapping("evictionSoft", p.soft)
		var graces pairsInOrder
		for _, pair := range p.soft {
			graces.set(pair.key, reportsOnly)
		}
		out.mapping("evictionSoftGracePeriod", graces)
	}
	if len(p.reserved) > 0 {
		p.copyReserved(out, "systemReserved", p.reserved)
	}
	return []byte(out.String())
}

// remarks adds notes about facts that the two documents cannot contain.
func (p *sharing) remarks() {
	if len(p.raised) > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s: what a percentage is worth is not known, so the kubelet's threshold stays and the agent's is a quarter above it; with --capacity the agent's stays, and the kubelet's is halved", strings.Join(p.raised, ", ")))
	}
	if _, there := p.ours.get(signals.MemoryAvailable); !there {
		p.notes = append(p.notes, "memory.available has no hard threshold: neither the agent nor the kubelet will evict for it at once")
	}
	if p.pods.kubelets.Text != "" {
		p.notes = append(p.notes, "for the limit of all pods (kubepods) the kubelet evicts first, above allocatable, as before; the agent evicts once half of the rest is used")
	}
	if p.flagged {
		p.notes = append(p.notes, "the kubelet's command line sets some of these fields and overrides files: remove those flags")
	}
}
