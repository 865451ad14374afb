package main

import (
	"testing"

	"plimsoll.dev/plimsoll/agent/config"
)

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
		if got, err := runtimeEndpoint(c); got != tc.want || err != nil {
			t.Errorf("%s below %s: %q, %v, want %q", tc.given, tc.root, got, err, tc.want)
		}
	}
	c := config.NewAgent()
	c.ContainerRuntimeEndpoint = "tcp://127.0.0.1:1"
	if got, err := runtimeEndpoint(c); err == nil {
		t.Errorf("%q is no socket", got)
	}
}
