package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// startDryRun begins a term without writes.
func (h *harness) startDryRun() {
	h.dryRun = true
	h.fleet.StopLeading(h.now)
	h.fleet.SetDryRun(true)
	h.fleet.Lead(time.Time{}, h.now)
}

// simulate finishes an action of a dry run.
func (h *harness) simulate(a *core.Action) {
	h.fleet.Finished(a, nil, h.now)
	if a.Kind == core.Evict || a.Kind == core.SoftEvict || a.Kind == core.DeleteEvictedPod {
		delete(h.pods, a.Pod.UID)
		h.fleet.PodGone(a.Pod.UID, h.now)
	}
}

// TestDryRun_DecidesAsWithWrites runs random clusters with and without writes.
func TestDryRun_DecidesAsWithWrites(t *testing.T) {
	t.Parallel()
	decide := func(seed uint64, dryRun bool) (lines []string) {
		c := newChaos(t, seed, modes[seed%uint64(len(modes))], chaosConfig{length: 15 * minute, events: 25, dryRun: dryRun})
		c.terminationTime = nil // a dry run knows none
		c.run(15 * minute)
		// The readiness of pods stays in a dry run as it was.
		return slices.DeleteFunc(c.lines, func(l string) bool { return strings.Contains(l, " pod-not-ready ") })
	}
	for seed := range uint64(clusters) {
		if want, got := decide(seed, false), decide(seed, true); !slices.Equal(got, want) {
			t.Fatalf("seed %d: decisions with writes:\n%s\nin a dry run:\n%s", seed, lastOf(want), lastOf(got))
		}
	}
}
