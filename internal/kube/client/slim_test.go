package client

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// The stored part of a pod does not depend on the fields dropped before decoding.
func TestEntryOf_EqualForSlimPods(t *testing.T) {
	choices := agentpods.NewChoices([]string{"kube-system"}, []string{"*"}, func(error) {})
	p := WatchPods(t.Context(), &Connection{node: "n1", log: slog.New(slog.DiscardHandler), choices: choices}, nil, nil)
	compared := map[PodState]int{}
	for seed := range int64(1000) {
		whole, slim := anypods.Decoded(t, anypods.Pod(seed, "n1"))
		want, got := p.entryOf(whole), p.entryOf(slim)
		if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if want.fault == nil {
			compared[want.state]++
		}
	}
	if compared[Active] < 100 || compared[Ended] < 100 || compared[Evicted] < 20 {
		t.Errorf("too few pods were compared: %v", compared)
	}
}
