package cgroupnotify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// onV2 skips a test on machines without version 2.
func onV2(t testing.TB) {
	t.Helper()
	if v := hierarchy(t).Version; v != cgroup.V2 {
		t.Skipf("cgroup %s has no memory.events", v)
	}
}

func setFile(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// TestEvents_WakeAtLimit checks that a limit of a watched cgroup, set by any program, wakes.
func TestEvents_WakeAtLimit(t *testing.T) {
	onV2(t)
	for where, below := range map[string]string{Node: "", Kubepods: "kubepods"} {
		t.Run(where, func(t *testing.T) {
			r := newEnv(t, Options{})
			for _, s := range r.Sources() {
				if s.Err != nil {
					t.Errorf("%+v", s)
				}
			}
			setFile(t, filepath.Join(r.box.Dir(sandbox.Unified), below), "memory.high", "67108864")
			h := r.box.Run(t, r.pod, "main")
			if err := h.Send("fill 80MiB"); err != nil {
				t.Fatal(err)
			}
			r.await(signals.ByLimit)
		})
	}
}

// TestEvents_WakeSlowlyForPodsAtLimit checks that pods at their own limits wake at a slow pace,
// far below the rate of the kernel's events.
func TestEvents_WakeSlowlyForPodsAtLimit(t *testing.T) {
	onV2(t)
	r := newEnv(t, Options{})
	if err := r.pod.LimitMemory(32 * mib); err != nil {
		t.Fatal(err)
	}
	h := r.box.Run(t, r.pod, "main")
	begin := time.Now()
	if err := h.Send("thrash 100MiB in /var/tmp for 90s"); err != nil {
		t.Fatal(err)
	}
	met, wakes, maxWakes := uint64(0), 0, 0
	for met < 5*uint64(maxWakes) || maxWakes < 10 {
		if r.Wait(time.Now().Add(100*time.Millisecond), true).Has(signals.ByLimit) {
			wakes++
		}
		met, maxWakes = timesAtLimit(t, r.pod), 2*(far.burst+int(time.Since(begin)/far.every))
		if time.Since(begin) > timeout {
			t.Fatalf("the pod reached its limit only %d times", met)
		}
	}
	if wakes == 0 || wakes > maxWakes {
		t.Errorf("woken %d times in %v, want 1 to %d", wakes, time.Since(begin), maxWakes)
	}
	t.Logf("%d wakes for %d events in %v", wakes, met, time.Since(begin))
}

func timesAtLimit(t *testing.T, p *sandbox.Pod) uint64 {
	t.Helper()
	text, err := os.ReadFile(p.Dir(sandbox.Unified) + "/memory.events")
	if err != nil {
		t.Fatal(err)
	}
	e, err := cgroup.ParseMemoryEvents(text)
	if err != nil {
		t.Fatal(err)
	}
	return e.Max
}

func TestEvents_FollowRecreatedCgroup(t *testing.T) {
	onV2(t)
	r := newEnv(t, Options{})
	check := func() {
		node := r.observe()
		r.retryAt = time.Time{}
		r.Follow(&node, nil)
	}
	kubepods := r.box.Dir(sandbox.Unified) + "/kubepods"
	remove(t, r.pod.ContainerDir("memory", "main"), r.pod.Dir("memory"), kubepods+"/burstable", kubepods)
	check()
	if s := r.source(MemoryEvents, Kubepods); s.Err == nil || !cgroup.IsGone(s.Err) {
		t.Errorf("%+v", s)
	}
	if _, err := r.box.AddPod("hog", sandbox.Burstable, "main"); err != nil {
		t.Fatal(err)
	}
	check()
	for _, s := range r.Sources() {
		if s.Err != nil {
			t.Errorf("%+v", s)
		}
	}
	setFile(t, kubepods, "memory.high", "67108864")
	h := r.box.Run(t, r.pod, "main")
	if err := h.Send("fill 80MiB"); err != nil {
		t.Fatal(err)
	}
	r.await(signals.ByLimit)
}

// TestPressure_DisabledWithRemovedCgroup checks that the trigger of a removed cgroup, permanently
// in error, disables the source without a wake.
func TestPressure_DisabledWithRemovedCgroup(t *testing.T) {
	onV2(t)
	r := newEnv(t, withoutMachine(t))
	kubepods := r.box.Dir(sandbox.Unified) + "/kubepods"
	remove(t, r.pod.ContainerDir("memory", "main"), r.pod.Dir("memory"), kubepods+"/burstable", kubepods)
	for end := time.Now().Add(timeout); r.source(PSI, Kubepods).Err == nil && time.Now().Before(end); {
		if w := r.Wait(time.Now().Add(10*time.Millisecond), false); w != 0 {
			t.Errorf("woken by %v for a removed cgroup", w.Names())
		}
	}
	if s := r.source(PSI, Kubepods); s.Err == nil || !strings.Contains(s.Err.Error(), unix.ENODEV.Error()) {
		t.Errorf("%+v", s)
	}
}

func TestWakesOf_ComparesCounters(t *testing.T) {
	was := cgroup.MemoryEvents{High: 1, Max: 2, OOM: 3, OOMKill: 4}
	for now, want := range map[cgroup.MemoryEvents]signals.Wakes{
		was:                                    0,
		{High: 2, Max: 2, OOM: 3, OOMKill: 4}:  signals.ByLimit,
		{High: 1, Max: 9, OOM: 3, OOMKill: 4}:  signals.ByLimit,
		{High: 1, Max: 3, OOM: 4, OOMKill: 4}:  signals.ByLimit | signals.ByOOM,
		{High: 1, Max: 2, OOM: 3, OOMKill: 5}:  signals.ByOOM,
		{High: 1, Max: 2, OOM: 4, OOMKill: 10}: signals.ByOOM,
	} {
		if got := wakesOf(was, now); got != want {
			t.Errorf("%+v wakes %v, want %v", now, got.Names(), want.Names())
		}
	}
}
