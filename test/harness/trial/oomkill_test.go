package trial_test

import (
	"os"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestOOMKill_IsReported checks that the agent reports an OOM kill of the kernel at the limit of a pod,
// and that it is not the pod beside it that is named.
func TestOOMKill_IsReported(t *testing.T) {
	n := node(t, "oomkill")
	log, err := os.Open("/dev/kmsg")
	if sandbox.Demand(t, "the kernel's log can not be read", err) {
		_ = log.Close()
	}
	addHog(t, n, "bystander", "", "fill 100MiB")
	pod, err := n.AddPod("leaky", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.LimitMemory(64 * mib); err != nil {
		t.Fatal(err)
	}
	a := start(t, n, "--eviction-hard=memory.available<50Mi", often)
	h, err := n.StartHog(within(t, patience), pod, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.Send("fill 200MiB at 100MiB/s"); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.OOMKilled, agent.Evicted)
	if d.Decision != agent.OOMKilled || d.Pod != "default/leaky" || d.UID != "uid-leaky" ||
		!strings.Contains(d.Reason, "of container app of pod default/leaky was OOM-killed at the memory limit of its pod (64Mi); container app held most of it") {
		t.Errorf("%s %s %s: %s", d.Decision, d.Pod, d.UID, d.Reason)
	}
	<-h.Process.Done()
}
