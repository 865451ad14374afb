package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/gc"
)

// Only one program collects garbage, while a kubelet may appear and disappear.
func TestGarbageCollector_StopsWhenKubeletAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime, log := &listCounter{}, slog.New(slog.DiscardHandler)
		c := &garbageCollector{arming: stateWithoutFile(false), kubelet: &kubeletDetector{config: config.NewAgent(), log: log}, log: log,
			collector: gc.New(runtime, nil, noOwners{}, nil, log, gc.Options{ImageHigh: 100})}
		ctx, stop := context.WithCancel(t.Context())
		go c.run(ctx)
		lists := func() int64 {
			before := runtime.lists.Load()
			<-time.After(10 * time.Minute)
			synctest.Wait()
			return runtime.lists.Load() - before
		}
		if lists() == 0 {
			t.Error("no collection without a kubelet")
		}
		c.kubelet.file.Store(true)
		<-time.After(2 * kubeletPeriod)
		synctest.Wait()
		if n := lists(); n != 0 {
			t.Errorf("%d collections beside a kubelet", n)
		}
		c.kubelet.file.Store(false)
		if lists() == 0 {
			t.Error("no collection after the kubelet disappeared")
		}
		stop()
		synctest.Wait() // run has ended
	})
}

// An unreadable configuration is not used, but shows that there is a kubelet, which collects
// garbage and enforces limits.
func TestKubeletDetector_UnreadableConfigurationCounts(t *testing.T) {
	c := config.NewAgent()
	c.KubeletConfig = filepath.Join(t.TempDir(), "config.yaml")
	log := slog.New(slog.DiscardHandler)
	if n := detectKubelet(c, nil, func(string) {}, log); !n.leavesGC() || !n.leavesLimits(c) {
		t.Error("without a kubelet, the agent does not collect garbage or enforce limits")
	}
	if err := os.WriteFile(c.KubeletConfig, []byte("kind: Unknown\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := detectKubelet(c, nil, func(string) {}, log); n.leavesGC() || n.leavesLimits(c) {
		t.Errorf("beside a kubelet: the agent collects garbage %t, enforces limits %t", n.leavesGC(), n.leavesLimits(c))
	}
}
