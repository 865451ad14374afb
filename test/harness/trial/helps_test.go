package trial_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// tinyPods is the number of pods that hold next to nothing.
const tinyPods = 12

// TestEvict_SparesPodsThatDoNotHelp: a process that can not be evicted allocates the node's memory beside
// twelve tiny pods. None of them goes, and the log names the consumer. The kubelet's choice evicts pods
// until the limit for ineffective evictions, or all of them.
func TestEvict_SparesPodsThatDoNotHelp(t *testing.T) {
	for _, holder := range []string{"daemon", "critical pod"} {
		for _, rate := range []string{"20MiB/s", "300MiB/s"} {
			for _, choice := range []string{"helps", "kubelet"} {
				t.Run(fmt.Sprintf("%s at %s, %s", holder, rate, choice), func(t *testing.T) {
					parallel(t)
					besideHolder(t, holder, rate, choice)
				})
			}
		}
	}
}

func besideHolder(t *testing.T, kind, rate, choice string) {
	n := node(t, "spared")
	tiny := map[string]*sandbox.Hog{}
	for i := range tinyPods {
		name := fmt.Sprintf("tiny-%02d", i)
		tiny["default/"+name] = addHog(t, n, name, "", "")
	}
	holder := startHolder(t, n, kind)
	// With the minimum reclaim a pod helps from 10 MiB on. A tiny one has 4 MiB.
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--eviction-minimum-reclaim=memory.available=200Mi", "--eviction-choice="+choice, often)
	fillUntil(t, n, holder, 110, "")
	fillUntil(t, n, holder, 40, " at "+rate)
	var evicted []string
	if choice == "helps" {
		spared(t, a, kind)
	} else {
		d := await(t, a, agent.Evicted, agent.Ineffective, agent.Failed)
		for ; d.Decision == agent.Evicted; d = await(t, a, agent.Evicted, agent.Ineffective, agent.Failed) { // Failed: no pod is left
			evicted = append(evicted, d.Pod)
		}
	}
	if _, err := holder.Do(within(t, time.Minute), "dip 20MiB for 2s"); err != nil { // twenty periodic checks
		t.Fatal(err)
	}
	for len(a.Decisions) > 0 {
		if d := <-a.Decisions; d.Decision == agent.Evicted {
			evicted = append(evicted, d.Pod)
		}
	}
	for _, pod := range evicted {
		<-tiny[pod].Process.Done()
	}
	dead := 0
	for _, h := range tiny {
		if !h.Process.Alive() {
			dead++
		}
	}
	if choice == "helps" && dead > 0 || choice == "kubelet" && dead < 2 {
		t.Errorf("%d of %d tiny pods were evicted", dead, tinyPods)
	}
	t.Logf("%d of %d tiny pods were evicted", dead, tinyPods)
	if !holder.Process.Alive() {
		t.Error("the process outside of the agent's reach has ended")
	}
	if ooms, err := n.OOMKills(); err != nil || ooms != 0 {
		t.Errorf("kernel OOM kills: %d, %v", ooms, err)
	}
}

// fillUntil grows a hog until the node has the given MiB left.
func fillUntil(t *testing.T, n *trial.Node, h *sandbox.Hog, left int64, at string) {
	t.Helper()
	if _, err := h.Await(within(t, time.Minute), startFillUntil(t, n, h, left, at)); err != nil {
		t.Fatal(err)
	}
}

// startFillUntil is fillUntil without the wait for the command that it returns.
func startFillUntil(t *testing.T, n *trial.Node, h *sandbox.Hog, left int64, at string) (command string) {
	t.Helper()
	used, err := n.WorkingSet()
	if err != nil {
		t.Fatal(err)
	}
	command = fmt.Sprintf("fill %d%s", n.Limit()-used-left*mib, at)
	if err := h.Send(command); err != nil {
		t.Fatal(err)
	}
	return command
}

// spared checks that no pod helps, and that the consumer of the memory is named.
func spared(t *testing.T, a *trial.Agent, kind string) {
	t.Helper()
	d := await(t, a, agent.NoneHelps, agent.Evicted, agent.Failed)
	for d.Decision == agent.NoneHelps && d.Repeated != agent.RepeatMeasured {
		d = await(t, a, agent.NoneHelps, agent.Evicted, agent.Failed)
	}
	consumer := map[string]string{"daemon": "cgroup daemon", "critical pod": "pods (kubepods)"}[kind]
	if len(d.Consumers) == 0 || d.Consumers[0].Name != consumer || d.Consumers[0].Amount < 200*mib {
		t.Errorf("decision: %+v", d)
	}
	t.Logf("%s; %+v", d.Reason, d.Consumers)
}

// startHolder starts a process in a critical pod, or in a cgroup of that name outside of pods.
func startHolder(t *testing.T, n *trial.Node, kind string) *sandbox.Hog {
	t.Helper()
	if kind == "critical pod" {
		return addHog(t, n, "critical", "{priority: 2000000000, containers: [{name: app, image: hog}]}", "")
	}
	service, err := n.AddService(kind)
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.StartHog(within(t, patience), service, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() }) // it has exited with the node
	return h
}
