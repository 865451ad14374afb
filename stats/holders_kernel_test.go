package stats

import (
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestHoldersAreNamed checks that consumers outside of pods are named with their amounts, and
// all pods as one.
func TestHoldersAreNamed(t *testing.T) {
	for name, options := range map[string][]sandbox.Option{"cgroupfs": nil, "systemd": {sandbox.SystemdNames()}} {
		t.Run(name, func(t *testing.T) {
			box := sandboxNode(t, options...)
			service, err := box.AddService("daemon")
			if err != nil {
				t.Fatal(err)
			}
			fillIn(t, box, service, "main", "fill 90MiB")
			fillIn(t, box, addPod(t, box, "0c1d-pod", sandbox.Burstable, "app"), "app", "fill 40MiB")
			n, err := OpenNode(Options{CgroupRoot: box.Root(), NodeCgroup: box.Path()})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			held := n.Consumers()
			t.Logf("%+v", held)
			if len(held) < 2 || held[0].Name != "cgroup daemon" || !strings.HasPrefix(held[1].Name, "pods (kubepods") {
				t.Fatalf("holders %+v", held)
			}
			for i, want := range []signals.Bytes{90 * mib, 40 * mib} {
				if got := held[i].Bytes; got < want || got > want+30*mib {
					t.Errorf("%s holds %d MiB, filled were %d", held[i].Name, got/mib, want/mib)
				}
			}
			if slices.ContainsFunc(held, func(h signals.Consumer) bool { return h.Bytes == 0 }) {
				t.Errorf("who holds nothing is named: %+v", held)
			}
		})
	}
}

// TestHoldersOfTheMachine checks that the kernel's own memory is read from /proc/meminfo on the
// machine.
func TestHoldersOfTheMachine(t *testing.T) {
	sandbox.Need(t)
	n, err := OpenNode(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	held := n.Consumers()
	t.Logf("%+v", held)
	if !slices.ContainsFunc(held, func(h signals.Consumer) bool { return h.Name == "slab, unreclaimable" }) {
		t.Errorf("the kernel's slab is not named: %+v", held)
	}
	if !slices.IsSortedFunc(held, func(a, b signals.Consumer) int { return int(b.Bytes - a.Bytes) }) || len(held) > maxHolders {
		t.Errorf("not the largest first: %+v", held)
	}
}

func fillIn(t *testing.T, box *sandbox.Node, in *sandbox.Pod, container, command string) {
	t.Helper()
	h, err := box.StartHog(t.Context(), in, container)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() }) // closed with the node
	if err := obey(t, h, command); err != nil {
		t.Fatal(err)
	}
}
