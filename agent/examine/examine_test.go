package examine

import (
	"errors"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/cri"
)

// The options of the doctor come from the configuration of the agent.
func TestOptions_DeriveFromConfiguration(t *testing.T) {
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

// The configuration and package cri use the same value for no runtime.
func TestLocate_AcceptsNoRuntime(t *testing.T) {
	if _, err := cri.Locate(config.NoRuntime, "/"); !errors.Is(err, cri.ErrNoRuntime) {
		t.Errorf("%q: %v", config.NoRuntime, err)
	}
}
