package app

import (
	"strings"
	"testing"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/signals"
)

func TestEventText_ListsLargestThree(t *testing.T) {
	daemon := signals.Consumer{Name: "cgroup daemon", Amount: 300<<20 + 1}
	data := signals.Consumer{Name: "/data", Amount: 40 << 30, Pod: "default/writer"}
	shared := signals.Consumer{Name: "/shared", Amount: 7, Pod: "default/a", Pods: 3, Incomplete: "its time is over"}
	for about, tc := range map[string]struct {
		decision agent.Decision
		want     string
	}{
		"memory": {agent.Decision{Reason: "why", Signal: "memory.available", Consumers: []signals.Consumer{daemon, {Name: "pods (kubepods)", Amount: 100 << 20}, {Name: "slab, unreclaimable", Amount: 3 << 10}, {Name: "page tables", Amount: 1 << 20}}},
			"why; held by cgroup daemon 300Mi, pods (kubepods) 100Mi, slab, unreclaimable 3Ki"},
		"disk":   {agent.Decision{Reason: "why", Signal: "nodefs.available", Consumers: []signals.Consumer{data, shared}, Unmeasured: []string{"a (1): /x", "b"}}, "why; held by /data (mounted by default/writer) 40Gi, /shared (mounted by default/a and 2 more) at least 7; not measured: a (1): /x; b"},
		"inodes": {agent.Decision{Reason: "why", Signal: "nodefs.inodesFree", Consumers: []signals.Consumer{shared}}, "why; held by /shared (mounted by default/a and 2 more) at least 7 inodes"},
		"PIDs":   {agent.Decision{Reason: "why", Signal: "pid.available", Consumers: []signals.Consumer{{Name: "cgroup x", Amount: 12}}}, "why; held by cgroup x 12 PIDs"},
		"none":   {agent.Decision{Reason: "why", Signal: "memory.available"}, "why"},
	} {
		if got := eventText(&tc.decision); got != tc.want {
			t.Errorf("%s: %q, want %q", about, got, tc.want)
		}
	}
	long := agent.Decision{Reason: strings.Repeat("\u20ac", 500), Signal: "memory.available"}
	if got := eventText(&long); len(got) > maxEventText || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
