package stats

import (
	"context"
	"errors"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// layer returns the report of a container's writable layer.
func layer(id, uid string, size int64) cri.ContainerStats {
	return cri.ContainerStats{ID: id, PodUID: uid, WritableBytes: cri.Used{Value: size, Known: true}, WritableInodes: cri.Used{Value: size / 1000, Known: true}}
}

func TestMerge_AddsLayersOfOtherContainers(t *testing.T) {
	app := layer("id-u1", "u1", 7000)
	dead := func(id, uid, name string) cri.Container {
		return cri.Container{ID: id, PodUID: uid, Name: name, State: cri.Exited}
	}
	fs := func(bytes signals.Bytes) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(bytes), Inodes: signals.Of(signals.Inodes(bytes / 1000))}
	}
	const unreported = "the container runtime does not report the layer of dead container app"
	for _, tc := range []struct {
		about  string
		layers []cri.ContainerStats
		listed []cri.Container
		want   signals.FilesystemUsage
	}{
		{"none", []cri.ContainerStats{app}, []cri.Container{{ID: "id-u1", PodUID: "u1", Name: "app", State: cri.Running}}, signals.FilesystemUsage{}},
		{"dead containers", []cri.ContainerStats{app, layer("dead", "u1", 1<<30), layer("older", "u1", 5000)}, []cri.Container{dead("dead", "u1", "app"), dead("older", "u1", "app")}, fs(1<<30 + 5000)},
		{"new container, not listed by the pod yet", []cri.ContainerStats{app, layer("new", "u1", 9000)}, nil, fs(9000)},
		{"other pod", []cri.ContainerStats{app, layer("dead", "u2", 1<<30)}, []cri.Container{dead("dead", "u2", "app")}, signals.FilesystemUsage{}},
		{"no pod", []cri.ContainerStats{app, layer("dead", "", 1<<30)}, []cri.Container{dead("dead", "", "app")}, signals.FilesystemUsage{}},
		{"dead container without a report", []cri.ContainerStats{app}, []cri.Container{dead("dead", "u1", "app")}, signals.FilesystemUsage{Incomplete: unreported}},
		{"one of two without a report", []cri.ContainerStats{app, layer("dead", "u1", 5000)}, []cri.Container{dead("dead", "u1", "app"), dead("older", "u1", "app")},
			signals.FilesystemUsage{Bytes: fs(5000).Bytes, Inodes: fs(5000).Inodes, Incomplete: unreported}},
		{"state that the runtime does not know", []cri.ContainerStats{app}, []cri.Container{{ID: "lost", PodUID: "u1", Name: "app", State: cri.UnknownState}}, signals.FilesystemUsage{Incomplete: unreported}},
		{"container that was only created", []cri.ContainerStats{app}, []cri.Container{{ID: "new", PodUID: "u1", Name: "app", State: cri.Created}}, signals.FilesystemUsage{}},
		{"init container without a report", []cri.ContainerStats{app}, []cri.Container{dead("done", "u1", "setup")}, signals.FilesystemUsage{}},
		{"init container", []cri.ContainerStats{app, layer("done", "u1", 5000)}, []cri.Container{dead("done", "u1", "setup")}, fs(5000)},
		{"runtime without layers", []cri.ContainerStats{{ID: "id-u1", PodUID: "u1"}}, []cri.Container{dead("dead", "u1", "app")}, signals.FilesystemUsage{}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			host := newDisk(t)
			p := host.pod("u1")
			p.Containers = append(p.Containers, signals.Container{Name: "setup", Init: true})
			d := host.open(DirectoryOptions{
				Layers:     func(context.Context) ([]cri.ContainerStats, error) { return tc.layers, nil },
				Containers: func(context.Context) ([]cri.Container, error) { return tc.listed, nil },
			})
			measure(t, d, p)
			for range 2 { // the second time into the previous result
				u := merged(d, &p)
				if u.OtherLayers != tc.want {
					t.Errorf("%+v, want %+v", u.OtherLayers, tc.want)
				}
				c := u.Container(&p.Containers[0])
				if sum := c.Rootfs.Bytes.Value + c.Logs.Bytes.Value + u.Volume("cache").Bytes.Value; u.EphemeralStorage.Value != sum {
					t.Errorf("ephemeral storage %d, want %d: it is compared with limits", u.EphemeralStorage.Value, sum)
				}
				again := []signals.Candidate{{Pod: &p, Usage: u}}
				d.Merge(again)
				if *again[0].Usage.Volume("cache") != *u.Volume("cache") || again[0].Usage.OtherLayers != u.OtherLayers {
					t.Errorf("merged twice: %+v", again[0].Usage)
				}
			}
		})
	}
}

// Files of the kubelet are deleted with the pod. They count as relief and for its limit, and pods are
// not ranked by them.
func TestMerge_AddsKubeletFiles(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	writeFile(t, host.own("u1")+"/etc-hosts", 3<<20)
	writeFile(t, host.own("u1")+"/containers/app/0a1b", 5<<20)
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	bytes, inodes := du(t, host.own("u1")+"/etc-hosts", host.own("u1")+"/containers")
	want := signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(bytes)), Inodes: signals.Of(signals.Inodes(inodes))}
	c := []signals.Candidate{{Pod: &p}}
	for range 2 {
		if d.Merge(c); c[0].Usage.KubeletFiles != want {
			t.Errorf("%+v, want %+v", c[0].Usage.KubeletFiles, want)
		}
	}
}

// The last list of dead containers counts while the runtime does not answer.
func TestDirectories_UsesLastDeadContainersWithoutRuntime(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	var fault error
	d := host.open(DirectoryOptions{
		Layers: func(context.Context) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer("id-u1", "u1", 7000), layer("dead", "u2", 1<<30)}, nil
		},
		Containers: func(context.Context) ([]cri.Container, error) {
			return []cri.Container{{ID: "unreported", PodUID: "u1", Name: "app", State: cri.Exited}}, fault
		},
	})
	measure(t, d, p)
	fault = errors.New("connection refused")
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil || !strings.Contains(err.Error(), "list dead containers") {
		t.Errorf("%v", err)
	}
	if u := merged(d, &p); u.OtherLayers.Incomplete == "" {
		t.Errorf("%+v", u.OtherLayers)
	}
	if u := merged(d, &signals.Pod{UID: "u2"}); u == nil || u.OtherLayers.Bytes.Value != 1<<30 || u.EphemeralStorage.Known {
		t.Errorf("pod with nothing but a dead container: %+v", u)
	}
	d.options.MaxAge = 1
	if u := merged(d, &p); u != nil {
		t.Errorf("an expired list is in use: %+v", u)
	}
}

// A container that was removed after the last list, or that has begun after the last report of layers,
// does not make its pod one that may free any amount. The runtime answers one of two calls.
func TestDirectories_ComparesDeadContainersWithTheirReport(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	layers := []cri.ContainerStats{layer("id-u1", "u1", 7000), layer("first", "u1", 1000)}
	listed := []cri.Container{{ID: "first", PodUID: "u1", Name: "app", State: cri.Exited}}
	var layersFault, listFault error
	d := host.open(DirectoryOptions{
		Layers:     func(context.Context) ([]cri.ContainerStats, error) { return layers, layersFault },
		Containers: func(context.Context) ([]cri.Container, error) { return listed, listFault },
	})
	expect := func(about string) {
		t.Helper()
		if u := merged(d, &p); u.OtherLayers.Incomplete != "" {
			t.Errorf("%s: %+v", about, u.OtherLayers)
		}
	}
	measure(t, d, p)
	expect("reported")
	layers, listFault = layers[:1], errors.New("deadline exceeded")
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil {
		t.Error("the fault of the list is missing")
	}
	expect("removed, and the list fails")
	listed[0].ID, layersFault, listFault = "second", errors.New("deadline exceeded"), nil
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil {
		t.Error("the fault of the layers is missing")
	}
	expect("a new one, and the layers fail")
}
