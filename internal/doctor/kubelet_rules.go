package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// kubeletMajor.firstKubeletMinor to kubeletMajor.lastKubeletMinor are the versions of the kubelet
// that Plimsoll is tested with.
const kubeletMajor, firstKubeletMinor, lastKubeletMinor = 1, 34, 37

// reportsForEver is a grace period that never ends in practice: the kubelet reports the condition,
// and never evicts by the threshold.
const reportsForEver = 24 * time.Hour

var kubeletRules = []rule[Facts]{
	{Code{"kubelet-hard-memory", Error, "A hard memory threshold of the kubelet is at or above the agent's. The kubelet evicts first, once in 10 s, and may evict a second pod.",
		"lower evictionHard of the kubelet to half of the agent's threshold or less, or raise the agent's; plimsoll import-kubelet-config writes both sides and preserves allocatable"},
		func(f *Facts) []trouble { return kubeletFirst(f, signals.Signal.OfMemory) }},
	{Code{"kubelet-hard-other", Warning, "A hard threshold of the kubelet for a disk, its inodes or PIDs is at or above the agent's: the kubelet evicts first.",
		"lower evictionHard of the kubelet to half of the agent's threshold or less; plimsoll import-kubelet-config writes both sides"},
		func(f *Facts) []trouble { return kubeletFirst(f, func(s signals.Signal) bool { return !s.OfMemory() }) }},
	{Code{"kubelet-soft-evicts", Error, "A soft threshold of the kubelet evicts before the agent would.",
		"set evictionSoftGracePeriod of the kubelet to 8760h for it: then the kubelet reports the condition, and does not evict by it"},
		kubeletSoftFirst},
	{Code{"kubelet-does-not-report", Warning, "The kubelet has no threshold equal to the agent's: the standard pressure condition, its taint and the kubelet's pod admission do not follow the agent.",
		"give the kubelet soft thresholds equal to the agent's, with a grace period of 8760h"},
		kubeletSilent},
	{Code{"kubelet-not-comparable", Info, "One of the thresholds of kubelet and agent is a percentage, the other an amount, and the capacity is unknown.",
		"write both as amounts or both as percentages"},
		incomparable},
	{Code{"kubelet-no-backstop", Warning, "The kubelet has no hard threshold for memory or nodefs: without the agent the node is not protected, and allocatable is larger by that amount.",
		"give the kubelet evictionHard below the agent's; if it was removed because of the agent, plimsoll import-kubelet-config preserves allocatable"},
		func(f *Facts) []trouble { return one(noBackstop(f)) }},
	{Code{"kubelet-blind", Warning, "With localStorageCapacityIsolation: false a kubelet with containerd measures no filesystem. Then it evicts for no signal, memory included, and reports no pressure.",
		"set localStorageCapacityIsolation: true for the kubelet; where it cannot measure, as in a user namespace, set --pressure-conditions=own; without the agent the node is unprotected then"},
		func(f *Facts) []trouble {
			return when(f.Kubelet.Value.Present && !f.Kubelet.Value.Config.StorageLimits,
				"localStorageCapacityIsolation of the kubelet ("+f.Kubelet.Value.Source+") is false")
		}},
	{Code{"image-gc-both", Warning, "Kubelet and agent both collect images and dead containers: each removes garbage that the other counts on, by its own thresholds.",
		"set --garbage-collection=auto, which leaves it to the kubelet, or switch the kubelet's off: imageGCHighThresholdPercent: 100, imageMaximumGCAge: 0s"},
		func(f *Facts) []trouble { return one(imagesByBoth(f)) }},
	{Code{"image-gc-late", Warning, "The kubelet collects images only below the agent's threshold for imagefs: pods are evicted before garbage is collected.",
		"lower imageGCHighThresholdPercent of the kubelet below 100 minus the agent's percentage, or set --garbage-collection=on and switch the kubelet's off"},
		func(f *Facts) []trouble { return one(imagesLate(f)) }},
	{Code{"storage-limits-both", Warning, "Kubelet and agent both evict pods above their local-storage limits.",
		"set --local-storage-limits=auto, which leaves them to the kubelet"},
		func(f *Facts) []trouble {
			return when(f.Kubelet.Value.Present && f.Kubelet.Value.Config.StorageLimits && f.Ours.StorageLimits == "on",
				"localStorageCapacityIsolation of the kubelet is true, and --local-storage-limits of the agent on")
		}},
	{Code{"storage-limits-unenforced", Warning, "Neither kubelet nor agent evicts pods above their local-storage limits.",
		"set --local-storage-limits=auto and localStorageCapacityIsolation: true for the agent, and the latter for the kubelet"},
		func(f *Facts) []trouble {
			return when(f.Kubelet.Value.Present && !f.Kubelet.Value.Config.StorageLimits && f.Ours.StorageLimits == "off",
				"neither kubelet nor agent enforces the local-storage limits of pods")
		}},
}

// first returns the thresholds that act first, by signal: the higher one of two for one signal.
func first(lines []kubeletconfig.Threshold, capacity Capacity) map[signals.Signal]kubeletconfig.Threshold {
	of := map[signals.Signal]kubeletconfig.Threshold{}
	for _, l := range lines {
		if known, there := of[l.Signal]; there {
			if order, comparable := l.Compare(known, capacity.Of(l.Signal)); !comparable || order <= 0 {
				continue
			}
		}
		of[l.Signal] = l
	}
	return of
}

// lines returns the agent's thresholds that satisfy a predicate.
func (o *Ours) lines(of func(Line) bool) (all []kubeletconfig.Threshold) {
	for _, l := range o.Lines {
		if of(l) {
			all = append(all, l.Threshold)
		}
	}
	return all
}

func isHard(l Line) bool { return l.Grace == 0 }

func every(Line) bool { return true }

// kubeletFirst reports the kubelet's hard thresholds that act no later than the agent's for the
// same signal: its hard one, or else its soft one.
func kubeletFirst(f *Facts, of func(signals.Signal) bool) (found []trouble) {
	hard, all := first(f.Ours.lines(isHard), f.Capacity.Value), first(f.Ours.lines(every), f.Capacity.Value)
	for _, k := range f.Kubelet.Value.Config.Hard {
		ours, there := hard[k.Signal]
		if !there {
			ours, there = all[k.Signal]
		}
		if !there || !of(k.Signal) {
			continue
		}
		if order, comparable := k.Compare(ours, f.Capacity.Value.Of(k.Signal)); comparable && order >= 0 {
			found = append(found, trouble{what: fmt.Sprintf("the kubelet's hard threshold %s (%s) is not below the agent's %s", k, f.Kubelet.Value.Source, ours)})
		}
	}
	return found
}

// kubeletSoftFirst reports the kubelet's soft thresholds that evict no later than the agent does
// for the same signal.
func kubeletSoftFirst(f *Facts) (found []trouble) {
	for _, k := range f.Kubelet.Value.Config.Soft {
		grace := f.Kubelet.Value.Config.Grace[k.Signal]
		watched, earlier := false, false
		for _, l := range f.Ours.Lines {
			order, comparable := l.Compare(k, f.Capacity.Value.Of(k.Signal))
			watched = watched || l.Signal == k.Signal
			earlier = earlier || l.Signal == k.Signal && l.Grace < grace && comparable && order >= 0
		}
		if watched && !earlier && grace < reportsForEver {
			found = append(found, trouble{what: fmt.Sprintf("the kubelet (%s) evicts when %s was met for %s, and no threshold of the agent is met earlier", f.Kubelet.Value.Source, k, grace)})
		}
	}
	return found
}

// kubeletSilent reports the thresholds that the kubelet would need to report pressure like the
// agent.
func kubeletSilent(f *Facts) []trouble {
	if !f.Kubelet.Value.Present || f.Ours.PressureConditions != "auto" && f.Ours.PressureConditions != "kubelet" {
		return nil
	}
	add := unreached(f)
	if len(add) == 0 {
		return nil
	}
	graces := map[string]string{}
	for name := range add {
		graces[name] = "8760h"
	}
	return []trouble{{
		what: "the kubelet does not report pressure at the agent's " + listed(slices.Sorted(maps.Keys(add))),
		remedy: fmt.Sprintf("add to the kubelet's configuration: evictionSoft: %s and evictionSoftGracePeriod: %s; or set --pressure-conditions=own",
			flow(add), flow(graces)),
	}}
}

// unreached returns the agent's thresholds that no threshold of the kubelet reaches, by signals
// that can be configured for a kubelet: it derives those for allocatable memory and containerfs.
func unreached(f *Facts) map[string]string {
	config, add := f.Kubelet.Value.Config, map[string]string{}
	for _, l := range first(f.Ours.lines(every), f.Capacity.Value) {
		if l.Signal.Definition().Filesystem != signals.Containerfs && !config.Reach(l, f.Capacity.Value.Of) {
			add[l.Signal.String()] = l.Text
		}
	}
	if add[signals.MemoryAvailable.String()] == add[signals.AllocatableMemoryAvailable.String()] {
		delete(add, signals.AllocatableMemoryAvailable.String())
	}
	return add
}

// flow returns a mapping in one line of YAML.
func flow(m map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, ", %s: %q", key, m[key])
	}
	return "{" + strings.TrimPrefix(b.String(), ", ") + "}"
}

func incomparable(f *Facts) (found []trouble) {
	config := f.Kubelet.Value.Config
	for _, k := range slices.Concat(config.Hard, config.Soft) {
		for _, l := range f.Ours.Lines {
			if _, comparable := k.Compare(l.Threshold, f.Capacity.Value.Of(k.Signal)); l.Signal == k.Signal && !comparable {
				found = append(found, trouble{what: fmt.Sprintf("%s of the kubelet and %s of the agent cannot be compared", k, l)})
			}
		}
	}
	return found
}

func noBackstop(f *Facts) string {
	if !f.Kubelet.Value.Present {
		return ""
	}
	var without []string
	for _, s := range []signals.Signal{signals.MemoryAvailable, signals.NodefsAvailable} {
		if !slices.ContainsFunc(f.Kubelet.Value.Config.Hard, func(t kubeletconfig.Threshold) bool { return t.Signal == s }) {
			without = append(without, s.String())
		}
	}
	if len(without) == 0 {
		return ""
	}
	return "the kubelet's evictionHard has no threshold for " + listed(without)
}

func imagesByBoth(f *Facts) string {
	gc := f.Kubelet.Value.Config.ImageGC
	if !f.Kubelet.Value.Present || f.Ours.Reclaim != "on" || gc.HighPercent >= 100 && gc.MaximumAge == 0 {
		return ""
	}
	return fmt.Sprintf("--garbage-collection=on, and the kubelet collects images from %d%% on (imageMaximumGCAge %s)", gc.HighPercent, gc.MaximumAge)
}

func imagesLate(f *Facts) string {
	if !f.Kubelet.Value.Present || f.Ours.Reclaim == "on" {
		return ""
	}
	ours, there := first(f.Ours.lines(every), f.Capacity.Value)[signals.ImagefsAvailable]
	if !there {
		return ""
	}
	free := 100 - f.Kubelet.Value.Config.ImageGC.HighPercent
	begins, err := kubeletconfig.ParseThreshold(signals.ImagefsAvailable, fmt.Sprintf("%d%%", free))
	if err != nil {
		return ""
	}
	order, comparable := begins.Compare(ours, f.Capacity.Value.Of(signals.ImagefsAvailable))
	if free > 0 && (!comparable || order >= 0) {
		return ""
	}
	return fmt.Sprintf("the kubelet collects images when %d%% of imagefs are left, the agent evicts below %s", free, ours.Text)
}
