package agentpods_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
		for _, p := range []*signals.Pod{&got, &want} {
			p.Containers, p.Ephemeral, p.Volumes, p.HostPaths = nil, nil, nil, nil
		}
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
	p := signals.Pod{HostPaths: []string{"/data", "/other"}, Volumes: []signals.Volume{
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
		if !reflect.DeepEqual(p.Volumes, want) || !reflect.DeepEqual(p.HostPaths, []string{"/data"}) {
			t.Errorf("got %+v, %v, want %+v", p.Volumes, p.HostPaths, want)
		}
		agentpods.Shorten(&p)
	}
}

// The path of a hostPath may have any length, and a pod any number of them.
func TestConvert_BoundsHostPaths(t *testing.T) {
	pod := &corev1.Pod{}
	for i := range 10_000 {
		path := "/" + strings.Repeat("x", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	if got := agentpods.Convert(pod); len(got.Volumes) != 0 || len(got.HostPaths) != 1 || got.HostPaths[0] != "/" {
		t.Errorf("of 10,000 hostPaths %d are stored: %+v", len(got.HostPaths), got)
	}
	pod.Spec.Volumes = pod.Spec.Volumes[1000:1100]
	paths, stored := agentpods.Convert(pod).HostPaths, 0
	for _, path := range paths {
		if len(path) > 1024 {
			t.Fatalf("a path of %d bytes is stored", len(path))
		}
		if path != "" {
			stored++
		}
	}
	if len(paths) != 100 || stored != 24 {
		t.Errorf("%d of %d paths are stored, want the 24 of at most 1024 bytes", stored, len(paths))
	}
}
