package rehearse_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plays is how many random scenarios are held against the twin.
func plays() uint64 {
	if testing.Short() {
		return 200
	}
	return 1000
}

// What random clusters lead to is what the contract, read once more and written
// down naively, says.
func TestTwin(t *testing.T) {
	t.Parallel()
	kinds := map[string]uint64{}
	for seed := range plays() {
		p := newPlay(seed, seed%4 == 0)
		got := told(t, p.yaml())
		want := newTwin(p).run()
		if i := difference(got, want); i >= 0 {
			t.Fatalf("seed %d: line %d is\n%s\nwant\n%s\nafter\n%s\nin\n%s", seed, i, at(got, i), at(want, i), strings.Join(got[max(0, i-15):min(i, len(got))], "\n"), p.yaml())
		}
		for _, l := range want {
			kinds[strings.Fields(l)[1]]++
		}
	}
	for _, kind := range []string{"zone", "condition", "taint", "pod-not-ready", "evict", "cancel"} {
		if kinds[kind] < plays()/4 {
			t.Errorf("%d lines of kind %s in %d plays: too few to mean much", kinds[kind], kind, plays())
		}
	}
	t.Log(kinds)
}

// A failover changes nothing at all where no token is waited for or was just
// spent, and no node is about to fall silent: whatever timers run, and however
// often it happens.
func TestFailovers(t *testing.T) {
	t.Parallel()
	tried, taints := 0, 0
	for seed := range plays() / 2 {
		p := newPlay(seed, true)
		want := told(t, p.yaml())
		calm := calmMoments(p, want)
		if !p.based || len(calm) == 0 {
			continue
		}
		got := told(t, p.yaml(calm...))
		if i := difference(got, want); i >= 0 {
			t.Fatalf("seed %d: line %d is\n%s\nwithout failovers\n%s\nafter\n%s\nin\n%s", seed, i, at(got, i), at(want, i), strings.Join(got[max(0, i-15):min(i, len(got))], "\n"), p.yaml(calm...))
		}
		tried += len(calm)
		taints += strings.Count(strings.Join(want, "\n"), "NoExecute")
	}
	if tried < int(plays()) || taints < int(plays()/2) {
		t.Errorf("%d failovers among %d NoExecute taints: too few to mean much", tried, taints)
	}
	t.Logf("%d failovers, %d NoExecute taints", tried, taints)
}

// calmMoments are times, a minute apart, near which nothing of that happens; none
// if a zone is ever disrupted, because its empty bucket is seen nowhere.
func calmMoments(p *play, lines []string) (calm []int) {
	near := map[int]bool{}
	for _, l := range lines {
		var now int
		if _, err := fmt.Sscanf(l, "%ds", &now); err != nil {
			panic(err)
		}
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
			calm = append(calm, t)
		}
	}
	return calm
}

func difference(got, want []string) int {
	for i := range max(len(got), len(want)) {
		if at(got, i) != at(want, i) {
			return i
		}
	}
	return -1
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// told is what a scenario prints in the words of the twin, sorted within each
// time.
func told(t *testing.T, file string) (all []string) {
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
