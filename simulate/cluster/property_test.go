package cluster_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plays returns the number of random scenarios to compare with the reference model.
func scenarios() uint64 {
	if testing.Short() {
		return 200
	}
	return 1000
}

// The output for random clusters equals that of the reference model, an independent and simple
// implementation of the contract.
func TestScenario_EqualsReferenceModel(t *testing.T) {
	t.Parallel()
	kinds := map[string]uint64{}
	for seed := range scenarios() {
		p := newScenario(seed, seed%4 == 0)
		want := newReference(p).run()
		expectSame(t, p, want)
		for _, l := range want {
			kinds[strings.Fields(l)[1]]++
		}
	}
	for _, kind := range []string{"zone", "condition", "taint", "pod-not-ready", "evict", "cancel", "clear-pod"} {
		if kinds[kind] < scenarios()/4 {
			t.Errorf("%d lines of kind %s in %d scenarios, want at least a quarter", kinds[kind], kind, scenarios())
		}
	}
	t.Log(kinds)
}

// A failover changes nothing if no token is awaited or was just spent, and no node is about to
// become silent. This holds for any timers and any number of failovers.
func TestRestart_ChangesNothingInQuietMoments(t *testing.T) {
	t.Parallel()
	tried, taints := 0, 0
	for seed := range scenarios() / 4 {
		p := newScenario(seed, true)
		want := sortedOutput(t, p.yaml())
		quiet := quietTimes(p, want)
		if !p.based || len(quiet) == 0 {
			continue
		}
		expectSame(t, p.withFailovers(quiet...), want)
		tried += len(quiet)
		taints += strings.Count(strings.Join(want, "\n"), "NoExecute")
	}
	if tried < int(scenarios()/2) || taints < int(scenarios()/4) {
		t.Errorf("got %d failovers and %d NoExecute taints, too few", tried, taints)
	}
	t.Logf("%d failovers, %d NoExecute taints", tried, taints)
}

// quietTimes returns times, a minute apart, without such events nearby. It returns none if a
// zone is ever disrupted, because its empty bucket is not stored in the API.
func quietTimes(p *scenario, lines []string) (quiet []int) {
	near := map[int]bool{}
	for _, l := range lines {
		now := secondsOf(l)
		near[now] = true
		switch {
		case strings.Contains(l, " zone "):
			return nil
		case strings.Contains(l, "Ready Unknown"):
			for t := now - 11; t <= now; t++ {
				near[t] = true
			}
		case strings.Contains(l, "add node.kubernetes.io/") && strings.HasSuffix(l, ":NoExecute"):
			pause := int(1/p.rate) + 1
			for t := now - pause; t <= now+pause; t++ {
				near[t] = true
			}
		}
	}
	for t := 60; t < p.until && t < p.events[len(p.events)-1].at; t += 60 {
		if !near[t] {
			quiet = append(quiet, t)
		}
	}
	return quiet
}

// Failovers at any time: the taints of lost nodes stay within the rate, and everything else
// follows from them as in the reference model. No timer moves, and only ready nodes are
// untainted. A silent node is Unknown at its deadline, or one renewal interval after the
// takeover.
func TestRestart_AtAnyTimeKeepsRatesAndTimers(t *testing.T) {
	t.Parallel()
	failovers := 0
	for seed := range scenarios() / 4 {
		p := newScenario(seed, seed%3 == 0)
		p.based = true
		if len(p.events) == 0 {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 9))
		var times []int
		for at := 5 + r.IntN(100); at < p.events[len(p.events)-1].at; at += 1 + r.IntN(80) {
			times = append(times, at)
		}
		p = p.withFailovers(times...)
		failovers += len(times)
		w := newReference(p)
		w.tainted = tainted(sortedOutput(t, p.yaml()))
		expectSame(t, p, w.run())
		expectRate(t, p, w.tainted)
	}
	t.Logf("%d failovers", failovers)
}

// tainted returns the nodes with a new NoExecute taint, except those in place of another one.
func tainted(lines []string) map[taintTime]bool {
	swapped, all := map[taintTime]bool{}, map[taintTime]bool{}
	for _, op := range []string{"remove", "add"} {
		for _, l := range lines {
			f := strings.Fields(l)
			if f[1] != "taint" || f[3] != op || !strings.HasSuffix(f[4], ":NoExecute") {
				continue
			}
			m := taintTime{secondsOf(l), f[2]}
			if op == "remove" {
				swapped[m] = true
			} else if !swapped[m] {
				all[m] = true
			}
		}
	}
	return all
}

// expectRate checks the NoExecute taints of each zone against its rate. Zones with nodes that leave or join
// are skipped.
func expectRate(t *testing.T, p *scenario, all map[taintTime]bool) {
	t.Helper()
	open := map[string]bool{}
	for _, e := range p.events {
		if e.do == "move" || e.do == "deleteNode" {
			open[zoneOf(e.node)], open[e.value] = true, true
		}
	}
	times := map[string][]int{}
	for m := range all {
		times[zoneOf(m.node)] = append(times[zoneOf(m.node)], m.at)
	}
	for zone, at := range times {
		slices.Sort(at)
		for i := range at {
			for j := i; j < len(at) && !open[zone]; j++ {
				if float64(j-i+1) > 1+p.rate*float64(at[j]-at[i])+1e-9 {
					t.Fatalf("zone %s: nodes tainted NoExecute at %v, at a rate of %g, in\n%s", zone, at[i:j+1], p.rate, p.yaml())
				}
			}
		}
	}
}

// zoneOf returns the initial zone of a node of a scenario.
func zoneOf(node string) string {
	zone, _, _ := strings.Cut(node, "-")
	return zone
}

func secondsOf(line string) (s int) {
	if _, err := fmt.Sscanf(line, "%ds", &s); err != nil {
		panic(err)
	}
	return s
}

func expectSame(t *testing.T, p *scenario, want []string) {
	t.Helper()
	got := sortedOutput(t, p.yaml())
	for i := range max(len(got), len(want)) {
		if at(got, i) != at(want, i) {
			t.Fatalf("line %d is\n%s\nwant\n%s\nafter\n%s\nin\n%s", i, at(got, i), at(want, i), strings.Join(got[max(0, i-15):min(i, len(got))], "\n"), p.yaml())
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// sortedOutput returns the output of a scenario in the format of the reference model, sorted within each
// time.
func sortedOutput(t *testing.T, file string) (all []string) {
	t.Helper()
	var out bytes.Buffer
	if err := read(t, file).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var same []string
	last := ""
	for _, l := range decoded(t, out.String()) {
		if at := fmt.Sprint(l.keys["at"]); at != last {
			slices.Sort(same)
			all = append(all, same...)
			same, last = nil, at
		}
		same = append(same, l.brief())
	}
	slices.Sort(same)
	return append(all, same...)
}

func (l printed) brief() string {
	k := l.keys
	switch k["do"] {
	case "zone":
		return fmt.Sprintf("%v zone %q %v %v", k["at"], strings.TrimPrefix(k["zone"].(string), "/"), k["state"], k["rate"])
	case "condition":
		return fmt.Sprintf("%v condition %v %v %v %v", k["at"], k["node"], k["type"], k["status"], k["reason"])
	case "taint":
		return fmt.Sprintf("%v taint %v %v %v:%v", k["at"], k["node"], k["op"], k["key"], k["effect"])
	case "evict":
		return fmt.Sprintf("%v evict %v %v %v", k["at"], k["node"], k["pod"], k["why"])
	}
	return fmt.Sprintf("%v %v %v %v", k["at"], k["do"], k["node"], k["pod"])
}
