package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// realRuntime returns a node with a containerd, and a client of it.
func realRuntime(t *testing.T) (context.Context, *cluster.Node, *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	n := cluster.Make(t, cluster.Options{Components: cluster.Containerd}).Node
	return ctx, n, openAt(t, Options{Endpoint: n.Socket, Timeout: patience})
}

func addHog(ctx context.Context, t *testing.T, n *cluster.Node) *cluster.Pod {
	t.Helper()
	p, err := n.AddPod(ctx, cluster.Hog("greedy"))
	if err == nil {
		err = p.Do(ctx, "fill 20MiB")
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get[V any](ctx context.Context, t *testing.T, ask func(context.Context) (V, error)) V {
	t.Helper()
	v, err := ask(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// find returns the matching entry, or ends the test.
func find[V any](t *testing.T, what string, list []V, is func(V) bool) V {
	t.Helper()
	i := slices.IndexFunc(list, is)
	if i < 0 {
		t.Fatalf("%s is not in %+v", what, list)
	}
	return list[i]
}

var begun = time.Now()

// sinceBegun reports whether a time is within the run of these tests.
func sinceBegun(at time.Time) bool { return at.After(begun) && !at.After(time.Now()) }

func TestClient_ReadsPodFromContainerd(t *testing.T) {
	ctx, n, c := realRuntime(t)
	if r := get(ctx, t, c.Version); r.Name != "containerd" || r.API != "v1" {
		t.Errorf("%+v", r)
	}
	pod := addHog(ctx, t, n)
	id := pod.Containers["main"]
	s := find(t, "the sandbox", get(ctx, t, c.Sandboxes), func(s Sandbox) bool { return s.ID == pod.Sandbox })
	if !s.Ready || s.UID != pod.UID() || s.Name != "greedy" || !sinceBegun(s.Created) {
		t.Errorf("%+v", s)
	}
	k := find(t, "the container", get(ctx, t, c.Containers), func(k Container) bool { return k.ID == id })
	if k.State != Running || k.Name != "main" || k.SandboxID != s.ID || k.PodUID != pod.UID() || !sinceBegun(k.Created) {
		t.Errorf("%+v", k)
	}
	images := get(ctx, t, c.Images)
	if i := find(t, "the image", images, func(i Image) bool { return i.ID == k.ImageID }); i.Pinned || i.Size < 1<<20 || !slices.ContainsFunc(i.Tags, func(t string) bool { return strings.HasSuffix(t, cluster.HogImage) }) {
		t.Errorf("%+v", i)
	}
	find(t, "the pinned image", images, func(i Image) bool { return i.Pinned })
	inImages, inLayers, err := c.ImageFilesystems(ctx)
	if err != nil || len(inImages) != 1 || !strings.HasPrefix(inImages[0].Mountpoint, n.ContainerdRoot) || !inImages[0].UsageKnown || len(inLayers) > 1 {
		t.Errorf("%+v, %+v, %v", inImages, inLayers, err)
	}
	status, err := c.ContainerStatus(ctx, id)
	if err != nil || status.State != Running || !strings.HasPrefix(status.LogPath, pod.Logs) || status.Started.Before(status.Created) || !status.Finished.IsZero() {
		t.Errorf("%+v, %v", status, err)
	}
	find(t, "the mount", status.Mounts, func(m Mount) bool { return m.ContainerPath == "/orders" && m.HostPath != "" })

	p := find(t, "the pod", get(ctx, t, c.PodStats), func(p PodStats) bool { return p.UID == pod.UID() })
	within := func(u Used) bool { return u.Known && u.Value >= 20<<20 && u.Value < 60<<20 }
	if !within(p.WorkingSet) || !p.Processes.Known || p.Processes.Value < 1 || p.SandboxID != s.ID || !sinceBegun(p.Time) {
		t.Errorf("%+v", p)
	}
	for _, list := range [][]ContainerStats{p.Containers, get(ctx, t, c.ContainerStats)} {
		if u := find(t, "the container", list, func(u ContainerStats) bool { return u.ID == id }); !within(u.WorkingSet) || u.PodUID != pod.UID() || u.Name != "main" {
			t.Errorf("%+v", u)
		}
	}
}

// awaitEvents ignores other events until those of a container have arrived in this order.
func awaitEvents(t *testing.T, events <-chan Event, id, uid string, kinds ...EventKind) {
	t.Helper()
	for len(kinds) > 0 {
		e := next(t, events)
		if e.ContainerID == id && e.Kind == kinds[0] {
			if e.PodUID != uid || !sinceBegun(e.At) {
				t.Errorf("%+v, want pod %s", e, uid)
			}
			kinds = kinds[1:]
		}
	}
}

func TestClient_RemovesPodFromContainerd(t *testing.T) {
	ctx, n, c := realRuntime(t)
	events, end := listen(t, c)
	if first := next(t, events); first.Kind != Reconnected {
		t.Errorf("got first event %+v, want Reconnected", first)
	}
	pod := addHog(ctx, t, n)
	id := pod.Containers["main"]
	awaitEvents(t, events, id, pod.UID(), ContainerCreated, ContainerStarted)
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	do("stop the container", c.StopContainer(ctx, id, 0))
	awaitEvents(t, events, id, pod.UID(), ContainerStopped)
	if status, err := c.ContainerStatus(ctx, id); err != nil || status.State != Exited || status.Finished.IsZero() {
		t.Errorf("stopped: %+v, %v", status, err)
	}
	// The layer of a dead container is part of what the end of its pod frees.
	if u := find(t, "the dead container", get(ctx, t, c.ContainerStats), func(u ContainerStats) bool { return u.ID == id }); !u.WritableBytes.Known || u.PodUID != pod.UID() {
		t.Errorf("stopped: %+v", u)
	}
	do("remove the container", c.RemoveContainer(ctx, id))
	do("remove the container once more", c.RemoveContainer(ctx, id))
	awaitEvents(t, events, id, pod.UID(), ContainerDeleted)
	if _, err := c.ContainerStatus(ctx, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("status of a removed container: got error %v, want ErrNotFound", err)
	}
	do("stop the sandbox", c.StopSandbox(ctx, pod.Sandbox))
	do("remove the sandbox", c.RemoveSandbox(ctx, pod.Sandbox))
	do("remove the sandbox once more", c.RemoveSandbox(ctx, pod.Sandbox))
	image := find(t, "the image", get(ctx, t, c.Images), func(i Image) bool { return !i.Pinned })
	do("remove the image", c.RemoveImage(ctx, image.ID))
	do("remove the image once more", c.RemoveImage(ctx, image.ID))
	if s, k := get(ctx, t, c.Sandboxes), get(ctx, t, c.Containers); len(s)+len(k) != 0 {
		t.Errorf("remaining sandboxes %+v, containers %+v", s, k)
	}
	for _, i := range get(ctx, t, c.Images) {
		if i.ID == image.ID {
			t.Errorf("remaining image: %+v", i)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestClient_ReconnectsToContainerd(t *testing.T) {
	ctx, n, c := realRuntime(t)
	events, _ := listen(t, c)
	next(t, events)
	get(ctx, t, c.Containers)
	if err := n.Containerd.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, func() error { return timesOut(ctx, c) }); err != nil { // threads stop one by one
		t.Errorf("runtime paused: %v", err)
	}
	if err := n.Containerd.Resume(); err != nil {
		t.Fatal(err)
	}
	get(ctx, t, c.Containers)
	if err := n.Containerd.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Containers(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("runtime stopped: got error %v, want ErrUnavailable", err)
	}
	if err := n.Containerd.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t, func() error { _, err := c.Containers(ctx); return err }); err != nil {
		t.Errorf("runtime restarted: %v", err)
	}
	for next(t, events).Kind != Reconnected {
	}
}

// timesOut returns an error if the runtime still responds.
func timesOut(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := c.Containers(ctx); !errors.Is(err, ErrTimeout) {
		return fmt.Errorf("got error %v, want ErrTimeout", err)
	}
	return nil
}
