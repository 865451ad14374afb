package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// TestConverter_SlimPods checks that dropping fields before decoding changes neither the facts
// of a pod nor the data read for its deletion.
func TestConverter_SlimPods(t *testing.T) {
	requested := func(p *corev1.Pod) (*model.Request, error) {
		r, marked, err := podstatus.Marked(p)
		if !marked || err != nil {
			return nil, err
		}
		return &model.Request{Cause: r.Cause, GraceSeconds: r.GracePeriodSeconds, Since: r.Since}, nil
	}
	evicted := 0
	for seed := range int64(1000) {
		whole, slim := anypods.Decoded(t, anypods.Pod(seed, "n1"))
		var warned [2][]string
		var of [2]*model.Pod
		for i, one := range []*corev1.Pod{whole, slim} {
			c := converter{requested: requested, warn: func(object, what string) { warned[i] = append(warned[i], object+what) }}
			of[i] = c.pod(one)
		}
		if diff := cmp.Diff(of[0], of[1]) + cmp.Diff(warned[0], warned[1]); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		since, marked := disruptedSince(whole)
		slimSince, slimMarked := disruptedSince(slim)
		if !since.Equal(slimSince) || marked != slimMarked || whole.ResourceVersion != slim.ResourceVersion {
			t.Fatalf("seed %d: got disruption since %s, want %s", seed, slimSince, since)
		}
		if of[0].Evicted != nil {
			evicted++
		}
	}
	if evicted < 10 {
		t.Errorf("only %d pods were evicted", evicted)
	}
}
