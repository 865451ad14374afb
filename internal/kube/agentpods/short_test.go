package agentpods_test

import (
	"reflect"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// A shortened pod has the same rank, protection and size as before.
func TestShorten_PreservesRankAndSize(t *testing.T) {
	active := 0
	for seed := range int64(200) {
		whole, _ := agentpods.FromAPI(anypods.Pod(seed, "n1"))
		short := whole
		agentpods.Shorten(&short)
		got, want := short, whole
		got.Containers, got.Ephemeral, got.Volumes, want.Containers, want.Ephemeral, want.Volumes = nil, nil, nil, nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %+v, want %+v", seed, got, want)
		}
		if again, _ := agentpods.FromAPI(anypods.Pod(seed, "n1")); !reflect.DeepEqual(whole, again) {
			t.Fatalf("seed %d: the pod with the shared parts was modified", seed)
		}
		if runs(&short) != runs(&whole) || len(short.Containers) > 1 {
			t.Fatalf("seed %d: %+v runs: %t", seed, short.Containers, runs(&whole))
		}
		if runs(&whole) {
			active++
		}
	}
	if active < 20 {
		t.Errorf("%d pods were running, want at least 20", active)
	}
}

func runs(p *signals.Pod) bool {
	for _, c := range p.Containers {
		if c.ID != "" {
			return true
		}
	}
	return false
}

func TestShorten_MeasuresEachVolume(t *testing.T) {
	p := signals.Pod{Volumes: []signals.Volume{
		{Name: "memory"}, {Name: "host", Local: true},
		{Name: "a", Local: true, Directory: "kubernetes.io~empty-dir/a"}, {Name: "b", Local: true, Directory: "kubernetes.io~empty-dir/b"},
		{Name: "c", Local: true, Directory: "kubernetes.io~configmap/c"},
	}}
	agentpods.Shorten(&p)
	want := []signals.Volume{
		{Name: "kubernetes.io-empty-dir", Local: true, Directory: "kubernetes.io~empty-dir"},
		{Name: "kubernetes.io-configmap", Local: true, Directory: "kubernetes.io~configmap"},
	}
	for range 2 { // the second call changes nothing
		if !reflect.DeepEqual(p.Volumes, want) {
			t.Errorf("got %+v, want %+v", p.Volumes, want)
		}
		agentpods.Shorten(&p)
	}
}
