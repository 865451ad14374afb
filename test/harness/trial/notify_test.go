package trial_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// noTimer disables all timed checks for an hour: any check is then a wake-up by the kernel.
var noTimer = []string{"--max-fill-rate=1", trial.NoPeriodicCheck, "--early-eviction=immediate"}

// pastTheLine grows a hog of 350 MiB past the threshold of a node of 512 MiB, and no further.
// Available memory is constant during the hog's exit, however long that takes, so that a second
// decision would be a defect.
const pastTheLine = "fill 80MiB at 200MiB/s"

func TestWakeup_OnMemoryThreshold(t *testing.T) {
	n := node(t, "crossing")
	if n.Version() != 1 {
		t.Skip("cgroup v2 has no thresholds of usage")
	}
	h := addHog(t, n, "hog", "", "fill 350MiB")
	a := start(t, n, append(noTimer, "--eviction-hard=memory.available<100Mi")...)
	if err := h.Send(pastTheLine); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.Evicted, agent.Failed)
	if d.Pod != "default/hog" || d.Check != "early" || !slices.Contains(d.WokenBy, "crossing") {
		t.Errorf("decision: %+v", d)
	}
	<-h.Process.Done()
	quiet(t, n, a)
}

func TestWakeup_OnMemoryLimit(t *testing.T) {
	n := node(t, "limit")
	if n.Version() != 2 {
		t.Skip("cgroup v1 has no memory.events")
	}
	h := addHog(t, n, "hog", "", "fill 350MiB")
	if err := os.WriteFile(filepath.Join(n.Node.Dir("memory"), "memory.high"), []byte("420M"), 0); err != nil {
		t.Fatal(err)
	}
	a := start(t, n, append(noTimer, "--eviction-hard=memory.available<100Mi")...)
	if err := h.Send(pastTheLine); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.Evicted, agent.Failed)
	if d.Pod != "default/hog" || d.Check != "early" || !slices.Contains(d.WokenBy, "limit") {
		t.Errorf("decision: %+v", d)
	}
	<-h.Process.Done()
	quiet(t, n, a)
}

// freeAddress returns an address without a listener. Its IP address is that of this process alone: a
// test beside it could get the port of 127.0.0.1 before the agent listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	pid := os.Getpid() // at most 1<<22
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16, pid>>8&0xff, pid&0xff))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ask gets a page of the agent's HTTP server.
func ask(t *testing.T, address, page string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + page)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWakeup_OnStallWithoutPressure(t *testing.T) {
	n := node(t, "stalls")
	pod, err := n.AddPod("throttled", "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.StartHog(t.Context(), pod, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	does := "thrash 128MiB in " + t.TempDir() + " for 20s"
	if n.Version() == 2 { // tasks above memory.high are throttled, which counts as stall
		does = "fill 100MiB at 10MiB/s"
		if err := os.WriteFile(filepath.Join(pod.Dir("memory"), "memory.high"), []byte("64M"), 0); err != nil {
			t.Fatal(err)
		}
	} else if err := pod.LimitMemory(64 * mib); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	a := start(t, n, append(noTimer, "--eviction-hard=memory.available<100Mi", "--healthz-bind-address="+address)...)
	if ready := ask(t, address, "/readyz?verbose"); !strings.Contains(ready, "[+]notifications ok: psi on machine") {
		t.Fatalf("stalls are not watched for: %s", ready)
	}
	if err := h.Send(does); err != nil {
		t.Fatal(err)
	}
	stalled := func() bool {
		text := ask(t, address, "/metrics")
		return strings.Contains(text, `plimsoll_wakeups_total{source="stall"} `) && !strings.Contains(text, `plimsoll_wakeups_total{source="stall"} 0`)
	}
	late, tick := time.After(patience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for !stalled() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("no stall woke the agent")
		}
	}
	// Stalls of the machine affect all cgroups: waits beside the node can wake the agent before
	// the pod reaches its limit.
	d := await(t, a, agent.Stalled, agent.Evicted, agent.Failed)
	for ; d.Decision == agent.Stalled && strings.Contains(d.Reason, "not explained by limits"); d = await(t, a, agent.Stalled, agent.Evicted, agent.Failed) {
		t.Logf("beside the pod: %s", d.Reason)
	}
	if d.Decision != agent.Stalled || len(d.Conditions) != 0 || len(d.Stalls) == 0 || d.Stalls[0].Pod != "default/throttled" {
		t.Errorf("decision: %+v", d)
	}
	if !strings.Contains(d.Reason, "default/throttled waits at a limit of its own, which is no pressure of the node") {
		t.Errorf("why: %s", d.Reason)
	}
	quiet(t, n, a, h)
}
