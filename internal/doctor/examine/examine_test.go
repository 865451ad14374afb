package examine

import (
	"errors"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/config"
)

// What an agent is configured to do becomes what a doctor compares with.
func TestOurs(t *testing.T) {
	c, err := config.ParseFile([]byte(`{apiVersion: plimsoll.dev/v1alpha1, kind: AgentConfiguration,
evictionHard: {memory.available: 500Mi, containerfs.available: 5%}, evictionSoft: {nodefs.available: 10%}, evictionSoftGracePeriod: {nodefs.available: 1m},
localStorageCapacityIsolation: false, softEviction: direct, pressureConditions: kubelet}`))
	if err != nil {
		t.Fatal(err)
	}
	o, err := Options(c, nil, nil, errors.New("no socket"))
	if err != nil || o.RuntimeFault == "" || o.Ours.StorageLimits != "off" || len(o.Rights) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
	var lines []string
	for _, l := range o.Ours.Lines {
		lines = append(lines, l.String()+" "+l.Grace.String())
	}
	if got, want := strings.Join(lines, ", "), "memory.available<500Mi 0s, allocatableMemory.available<500Mi 0s, nodefs.available<10% 1m0s"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The host's root comes before the runtime's socket, whether it was named or
// found.
func TestARuntimeThatWasNamedIsTheHosts(t *testing.T) {
	for _, tc := range []struct{ root, given, want string }{
		{"/", "unix:///run/crio/crio.sock", "unix:///run/crio/crio.sock"},
		{"/host", "unix:///run/crio/crio.sock", "unix:///host/run/crio/crio.sock"},
		{"/host", "/run/crio/crio.sock", "unix:///host/run/crio/crio.sock"},
	} {
		c := config.NewAgent()
		c.HostRoot, c.ContainerRuntimeEndpoint = tc.root, tc.given
		if got, err := RuntimeEndpoint(c); got != tc.want || err != nil {
			t.Errorf("%s below %s: %q, %v, want %q", tc.given, tc.root, got, err, tc.want)
		}
	}
	c := config.NewAgent()
	c.ContainerRuntimeEndpoint = "tcp://127.0.0.1:1"
	if got, err := RuntimeEndpoint(c); err == nil {
		t.Errorf("%q is no socket", got)
	}
}
