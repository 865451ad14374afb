package stats

import (
	"path"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestConsumers_ListsCgroupsAndPods checks that consumers outside of pods are named with their
// amounts, and all pods as one.
func TestConsumers_ListsCgroupsAndPods(t *testing.T) {
	for name, options := range map[string][]sandbox.Option{"cgroupfs": nil, "systemd": {sandbox.SystemdNames()}} {
		t.Run(name, func(t *testing.T) {
			box := sandboxNode(t, options...)
			service, err := box.AddService("daemon")
			if err != nil {
				t.Fatal(err)
			}
			fillIn(t, box, service, "main", "fill 90MiB")
			fillIn(t, box, addPod(t, box, "0c1d-pod", sandbox.Burstable, "app"), "app", "fill 40MiB")
			found := consumersOf(t, Options{CgroupRoot: box.Root(), NodeCgroup: box.Path()}).Memory().Largest
			t.Logf("%+v", found)
			if len(found) < 2 || found[0].Name != "cgroup daemon" || !strings.HasPrefix(found[1].Name, "pods (kubepods") {
				t.Fatalf("got consumers %+v", found)
			}
			for i, want := range []signals.Amount{90 * mib, 40 * mib} {
				if got := found[i].Amount; got < want || got > want+30*mib {
					t.Errorf("%s has %d MiB, want %d to %d", found[i].Name, got/mib, want/mib, want/mib+30)
				}
			}
			if slices.ContainsFunc(found, func(h signals.Consumer) bool { return h.Amount == 0 }) {
				t.Errorf("a consumer without memory is listed: %+v", found)
			}
		})
	}
}

// TestConsumers_SeparatesPodsBelowSlice checks a node with the pods' cgroup below another one, as on
// kind: that one counts without the pods. These are among the largest of the machine, also beside the
// nodes of other tests.
func TestConsumers_SeparatesPodsBelowSlice(t *testing.T) {
	box := sandboxNode(t, sandbox.SystemdNames())
	fillIn(t, box, addPod(t, box, "0c1d-pod", sandbox.Burstable, "app"), "app", "fill 400MiB")
	h, err := cgroup.Detect(box.Root())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]signals.Amount{}
	for _, c := range consumersOf(t, Options{Hierarchy: h, NodeCgroup: "/", Places: cgroup.NewPodPlaces(h, box.Path())}).Memory().Largest {
		found[c.Name] = c.Amount
	}
	pods, others := found["pods (kubepods.slice)"], found["cgroup "+path.Base(box.Path())+" itself"]
	if pods < 400*mib || pods > 430*mib || others > 20*mib {
		t.Errorf("pods have %d MiB, the slice itself %d MiB: %+v", pods/mib, others/mib, found)
	}
}

// TestConsumers_ListsKernelMemory checks that the kernel's own memory is read from
// /proc/meminfo on the machine.
func TestConsumers_ListsKernelMemory(t *testing.T) {
	sandbox.Need(t)
	found := consumersOf(t, Options{}).Memory().Largest
	t.Logf("%+v", found)
	if !slices.ContainsFunc(found, func(h signals.Consumer) bool { return h.Name == "slab, unreclaimable" }) {
		t.Errorf("the kernel's slab is not listed: %+v", found)
	}
	if !slices.IsSortedFunc(found, func(a, b signals.Consumer) int { return int(b.Amount - a.Amount) }) || len(found) > signals.MaxConsumers {
		t.Errorf("not sorted by size, or more than MaxConsumers: %+v", found)
	}
}

func fillIn(t *testing.T, box *sandbox.Node, in *sandbox.Pod, container, command string) {
	t.Helper()
	h, err := box.StartHog(t.Context(), in, container)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() }) // the node closes it anyway
	if err := runCommand(t, h, command); err != nil {
		t.Fatal(err)
	}
}
