package pods_test

import (
	"reflect"
	"testing"

	"plimsoll.dev/plimsoll/pods"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/test/anypods"
)

// A pod that is kept short is as urgent, as protected and as large as before.
func TestShorten_KeepsThePod(t *testing.T) {
	ran := 0
	for seed := range int64(200) {
		whole, _ := pods.FromAPI(anypods.Pod(seed, "n1"))
		short := whole
		pods.Shorten(&short)
		got, want := short, whole
		got.Containers, got.Ephemeral, got.Volumes, want.Containers, want.Ephemeral, want.Volumes = nil, nil, nil, nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %+v, not %+v", seed, got, want)
		}
		if again, _ := pods.FromAPI(anypods.Pod(seed, "n1")); !reflect.DeepEqual(whole, again) {
			t.Fatalf("seed %d: the pod that shares its parts has changed", seed)
		}
		if runs(&short) != runs(&whole) || len(short.Containers) > 1 {
			t.Fatalf("seed %d: %+v runs: %t", seed, short.Containers, runs(&whole))
		}
		if runs(&whole) {
			ran++
		}
	}
	if ran < 20 {
		t.Errorf("%d pods ran", ran)
	}
}

func runs(p *signal.Pod) bool {
	for _, c := range p.Containers {
		if c.ID != "" {
			return true
		}
	}
	return false
}

func TestShorten_MeasuresEachVolume(t *testing.T) {
	p := signal.Pod{Volumes: []signal.Volume{
		{Name: "memory"}, {Name: "host", Local: true},
		{Name: "a", Local: true, Directory: "kubernetes.io~empty-dir/a"}, {Name: "b", Local: true, Directory: "kubernetes.io~empty-dir/b"},
		{Name: "c", Local: true, Directory: "kubernetes.io~configmap/c"},
	}}
	pods.Shorten(&p)
	want := []signal.Volume{
		{Name: "kubernetes.io-empty-dir", Local: true, Directory: "kubernetes.io~empty-dir"},
		{Name: "kubernetes.io-configmap", Local: true, Directory: "kubernetes.io~configmap"},
	}
	for range 2 { // the second time nothing changes
		if !reflect.DeepEqual(p.Volumes, want) {
			t.Errorf("%+v, not %+v", p.Volumes, want)
		}
		pods.Shorten(&p)
	}
}
