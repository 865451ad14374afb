package probe_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/test/harness/bulk"
)

func TestNode_ImagesOfLargePodsCostNoMemory(t *testing.T) {
	b := &bulk.Server{Node: "n", Pods: 60, Failed: 10, Grow: func(p *corev1.Pod) {
		bulk.Fill(p)
		p.Spec.HostPID = true
	}}
	if _, err := b.Prepare(); err != nil {
		t.Fatal(err)
	}
	before, peak := bulk.Live(), int64(0)
	b.Sent = func(n int) {
		if n%5 == 0 {
			peak = max(peak, bulk.Live()-before)
		}
	}
	server := httptest.NewServer(b)
	defer server.Close()
	o := options(tree(t, host))
	o.Client, o.NodeName = clientOf(t, server.URL), "n"
	images := probe.Node(t.Context(), o).Server.Images
	if !images.Known || !slices.Equal(images.Value, []string{"bulk"}) {
		t.Errorf("%+v", images)
	}
	if peak > 24<<20 {
		t.Errorf("%d MiB were reachable while 80 MB of pods arrived", peak>>20)
	}
}

// The images of a running agent are used: its pods are not listed a second time.
func TestNode_UsesImagesOfAgent(t *testing.T) {
	b := &bulk.Server{Node: "n", Pods: 1, Grow: bulk.Fill, Sent: func(int) { t.Error("the pods are listed") }}
	if _, err := b.Prepare(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b)
	defer server.Close()
	o := options(tree(t, host))
	o.Client, o.NodeName = clientOf(t, server.URL), "n"
	o.Images = func(context.Context) ([]string, error) { return []string{"i"}, nil }
	if images := probe.Node(t.Context(), o).Server.Images; !images.Known || !slices.Equal(images.Value, []string{"i"}) {
		t.Errorf("%+v", images)
	}
	o.Images = func(context.Context) ([]string, error) { return nil, errors.New("not listed yet") }
	if images := probe.Node(t.Context(), o).Server.Images; images.Known || images.Cause != "not listed yet" {
		t.Errorf("%+v", images)
	}
}
