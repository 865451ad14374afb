package arena

import "testing"

func TestPodDirectories_AreThoseOfKubelets(t *testing.T) {
	for _, c := range []struct {
		systemd   bool
		qos       QoS
		pod, leaf string
	}{
		{false, Guaranteed, "kubepods/poda-b", "kubepods/poda-b/c"},
		{false, BestEffort, "kubepods/besteffort/poda-b", "kubepods/besteffort/poda-b/c"},
		{true, Guaranteed, "kubepods.slice/kubepods-poda_b.slice", "kubepods.slice/kubepods-poda_b.slice/cri-containerd-c.scope"},
		{true, Burstable, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c.scope"},
	} {
		n := &Node{Options: Options{Systemd: c.systemd}}
		if pod, leaf := n.podDirectories("a-b", c.qos, "c"); pod != c.pod || leaf != c.leaf {
			t.Errorf("%s, systemd %v: got %s and %s", c.qos, c.systemd, pod, leaf)
		}
	}
}

func TestOwned_MatchesOwnNamesOnly(t *testing.T) {
	for name, want := range map[string]bool{
		"npb-4026531836-12-345-1": true, "npb-4026531836-12-345-1-contestant": true,
		"npb-x-12-345-1": false, "my-npb-1-2-3-4": false, "npb-1-2-3-4-5": false, "npb-": false,
	} {
		if got := owned.MatchString(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
