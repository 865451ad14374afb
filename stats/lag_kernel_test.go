package stats

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/test/sandbox"
)

// Page cache that comes fast is seen as such, look after look, though the
// counters of the node's cgroup stand still at times: what is left never differs
// by much from what the container's own counters say.
func TestCountersThatStandStillAreCaughtUpWith(t *testing.T) {
	const lasts, pace, late = 3 * time.Second, time.Millisecond, 100 * mib
	box := sandboxNode(t)
	p := addPod(t, box, "streamer", sandbox.Burstable, "app")
	n := openNode(t, Options{NodeCgroup: box.Path(), KubeReserved: 100 * mib})
	pods := OpenPods(n.Hierarchy(), box.Path())
	t.Cleanup(pods.Close)
	pods.Prepare([]signal.Pod{{UID: "streamer"}})
	n.Among(pods)
	own, err := cgroup.OpenMemory(n.Hierarchy(), p.Path()+"/app")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	h := box.Run(t, p, "app", "fill 150MiB")
	if err := h.Send("random 300MiB in " + onDisk + " for 20s"); err != nil {
		t.Fatal(err)
	}
	tick, over := time.NewTicker(pace), time.After(lasts)
	defer tick.Stop()
	var worst, most signal.Amount
	looks, stood, longer := 0, 0, 5
	for {
		select {
		case <-over:
			if most < 100*mib && longer > 0 { // a slow machine
				longer, over = longer-1, time.After(lasts)
				continue
			}
			t.Logf("%d looks; up to %d MiB of page cache; counters stood still at %d; what is left was off by %d MiB at most", looks, most/mib, stood, worst/mib)
			if most < 100*mib || worst > late {
				t.Errorf("page cache up to %d MiB; off by up to %d MiB", most/mib, worst/mib)
			}
			return
		case <-tick.C:
		}
		collected := pods.countedAt
		var seen signal.Observations
		n.Look(signal.Extra, time.Now(), &seen)
		u, err := own.Read()
		if err != nil || !seen[signal.MemoryAvailable].Known {
			t.Fatalf("%v, %+v", err, seen[signal.MemoryAvailable])
		}
		left := 512*mib - signal.Amount(u.Usage-u.ActiveFile-u.InactiveFile)
		off := seen[signal.MemoryAvailable].Left() - left
		worst, most = max(worst, off, -off), max(most, signal.Amount(u.File))
		looks++
		if pods.countedAt != collected {
			stood++
		}
	}
}
