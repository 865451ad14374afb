package trial_test

import (
	"testing"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// TestEvict_FindsSystemdCgroups covers the complete path, from the discovery of kubepods to the kill, with
// the names of the systemd driver.
func TestEvict_FindsSystemdCgroups(t *testing.T) {
	sandbox.Need(t)
	n, err := trial.NewNode("systemd", 512*mib, sandbox.SystemdNames())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	calm := addHog(t, n, "calm", trial.Requesting("100Mi"), "fill 60MiB")
	hog := addHog(t, n, "hog", "", "fill 200MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", often)
	if err := hog.Send("fill 180MiB"); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.Evicted, agent.Failed)
	if d.Decision != agent.Evicted || d.Pod != "default/hog" || d.Processes == 0 {
		t.Errorf("decision: %+v", d)
	}
	<-hog.Process.Done()
	quiet(t, n, a, calm)
}
