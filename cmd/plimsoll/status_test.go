package main

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/apiserver"
	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ladder"
	"plimsoll.dev/plimsoll/metrics"
	"plimsoll.dev/plimsoll/podstatus"
	"plimsoll.dev/plimsoll/signal"
)

// What the controller is asked for is published as long as there is such a pod.
func TestARequestEndsWithItsPod(t *testing.T) {
	var published []podstatus.Request
	soft, err := podstatus.NewSoft("controller", nil, func(all []podstatus.Request) { published = all })
	if err != nil {
		t.Fatal(err)
	}
	r := &requests{soft: soft, pods: &apiPods{Pods: apiserver.WatchPods(t.Context(), &apiserver.Connection{}, nil, nil)},
		metrics: metrics.New(metrics.Settings{}), safety: flagged(false), log: slog.New(slog.DiscardHandler), standing: map[string]podstatus.Notice{}}
	pod := signal.Pod{UID: "a-1", Namespace: "default", Name: "p"}
	n := ladder.Notice{Eviction: &eviction.Eviction{Pod: &pod, Cause: "memory.available"}, Decided: time.Now()}
	if _, err := r.Request(t.Context(), n, time.Minute); err != nil {
		t.Fatal(err)
	}
	if r.forget(t.Context(), []signal.Pod{pod}); len(published) != 1 {
		t.Errorf("published %v, want the request", published)
	}
	if r.forget(t.Context(), nil); len(published) != 0 {
		t.Errorf("published %v after the pod has ended", published)
	}
}

func TestTheSandboxIsTheDirectoryThatIsNoContainer(t *testing.T) {
	pod := &signal.Pod{Containers: []signal.Container{{Name: "a", ID: "1"}, {Name: "b", ID: "2"}, {Name: "init", Init: true}}}
	for _, tc := range []struct {
		directories []string // by the runtime's ID
		want        string
	}{
		{[]string{"1", "s", "2"}, "cri-containerd-s.scope"},
		{[]string{"1", "2"}, ""},
		{[]string{"app"}, ""}, // of a manifest
		{[]string{"s"}, ""},   // nothing runs in it
		{[]string{"1", "new"}, ""},
		{[]string{"s", "2", "new"}, ""}, // a container was started again: which is which?
		{nil, ""},
	} {
		var found []cgroup.Container
		for _, id := range tc.directories {
			found = append(found, cgroup.Container{Name: id, Path: "/kubepods.slice/pod/cri-containerd-" + id + ".scope"})
		}
		if got := sandboxOf(pod, found); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.directories, got, tc.want)
		}
	}
}

// CRI-O may watch a container from inside the pod's cgroup.
func TestWhoWatchesContainersIsSparedBesideTheSandbox(t *testing.T) {
	pod := &signal.Pod{UID: "u", Containers: []signal.Container{{Name: "a", ID: "1"}, {Name: "b", ID: "2"}}}
	known := sandboxes{}
	for _, tc := range []struct{ directories, want []string }{
		{[]string{"crio-1.scope", "crio-conmon-1.scope", "crio-2.scope", "crio-conmon-2.scope"}, []string{"crio-conmon-1.scope", "crio-conmon-2.scope"}},
		{[]string{"crio-1", "crio-conmon-1", "crio-s", "crio-2", "crio-conmon-s"}, []string{"crio-s", "crio-conmon-1", "crio-conmon-s"}},
		{[]string{"crio-conmon-1"}, []string{"crio-s", "crio-conmon-1"}}, // what is known of the sandbox holds
	} {
		var found []cgroup.Container
		for _, base := range tc.directories {
			found = append(found, cgroup.Container{Name: cgroup.ContainerName(base), Path: "/kubepods/pod/" + base})
		}
		if got := known.spared(pod, found); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", tc.directories, got, tc.want)
		}
	}
}
