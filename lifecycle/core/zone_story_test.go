package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

func without(n *model.Node)  { n.Conditions = [model.ConditionTypes]model.Condition{} }
func excluded(n *model.Node) { n.Labels.Excluded = true }

var zoneScenarios = []struct {
	name     string
	scenario func(h *harness)
	want     []string
}{
	{"nodes without labels are one zone", func(h *harness) {
		h.node("a", func(n *model.Node) { n.Labels = model.Labels{} })
		h.node("b", func(n *model.Node) { n.Labels = model.Labels{} })
	}, []string{"0 zone  Normal 0.1"}},
	{"one of two lost nodes returns", func(h *harness) {
		h.node("a")
		h.node("b")
		h.at(0, func() { h.stop("a", "b") })
		h.at(100*second, func() { h.resume("a") })
	}, []string{"0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0", "100 zone r/z Normal 0.1"}},
	{"one of two lost zones returns", func(h *harness) {
		h.node("a")
		h.node("b", in("y"))
		h.at(0, func() { h.stop("a", "b") })
		h.at(100*second, func() { h.resume("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "40 zone r/y FullDisruption 0", "40 zone r/z FullDisruption 0", "100 zone r/y Normal 0.1", "100 zone r/z FullDisruption 0.1"}},
	{"no reports, then one of four ready", func(h *harness) {
		for i := range 4 {
			h.neverReporting(fmt.Sprint("n", i))
		}
		h.at(30*second, func() { h.resume("n0") })
	}, []string{"0 zone r/z FullDisruption 0", "30 zone r/z PartialDisruption 0"}},
	{"partial disruption at startup", func(h *harness) {
		h.node("up")
		h.node("a", without)
		h.node("b", without)
		h.node("c", without)
	}, []string{"0 zone r/z PartialDisruption 0"}},
	{"third of five fails", func(h *harness) {
		for i := range 5 {
			h.node(fmt.Sprint("n", i))
		}
		h.at(0, func() { h.stop("n0", "n1") })
		h.at(51*second, func() { h.stop("n2") })
	}, []string{"0 zone r/z Normal 0.1", "90 zone r/z PartialDisruption 0"}},
	{"last healthy node fails", func(h *harness) {
		h.node("a")
		h.node("b")
		h.node("elsewhere", in("y"))
		h.at(0, func() { h.stop("a") })
		h.at(51*second, func() { h.stop("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "90 zone r/z FullDisruption 0.1"}},
	{"both zones fail", func(h *harness) {
		h.node("a")
		h.node("b", in("y"))
		h.at(0, func() { h.stop("a") })
		h.at(51*second, func() { h.stop("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0.1", "90 zone r/y FullDisruption 0", "90 zone r/z FullDisruption 0"}},
	{"Ready removed", func(h *harness) {
		h.node("a")
		h.node("b", in("y"))
		h.at(5*second, func() { h.change("a", func(n *model.Node) { n.Conditions[model.Ready] = model.Condition{} }) })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "5 zone r/z FullDisruption 0.1"}},
	{"only healthy node excluded", func(h *harness) {
		h.node("a")
		h.node("apart", excluded)
		h.at(0, func() { h.stop("a") })
	}, []string{"0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0"}},
	{"all nodes excluded", func(h *harness) {
		h.node("a", excluded)
		h.at(0, func() { h.stop("a") })
	}, []string{"0 zone r/z Normal 0.1"}},
	{"node changes zones", func(h *harness) {
		h.node("a")
		h.node("b")
		h.at(0, func() { h.stop("a") })
		h.at(50*second, func() { h.change("b", in("y")) })
	}, []string{"0 zone r/z Normal 0.1", "50 zone r/y Normal 0.1", "50 zone r/z FullDisruption 0.1"}},
}

func TestZone_ReportsStateAndRate(t *testing.T) {
	for _, c := range zoneScenarios {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			c.scenario(h)
			h.run(150 * second)
			h.expect("zone", c.want...)
		})
	}
}

func TestTaint_IncludesExcludedNodes(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a", func(n *model.Node) { n.Labels.Excluded = true })
	h.node("b")
	h.node("master-abc")
	h.pod("web", "a", defaultTolerations(60)...)
	h.at(0, func() { h.stop("a", "master-abc") })
	h.run(200 * second)
	h.expect("taint evict",
		"40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute", "40 taint master-abc +unreachable:NoSchedule",
		"50 taint master-abc +unreachable:NoExecute", "100 evict a web taint")
}

func TestTaint_LongestUnreadyFirst(t *testing.T) {
	h := newHarness(t, taintMode())
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		h.node(name)
	}
	h.at(0, func() { h.stop("d") })
	h.at(5*second, func() { h.ready("c", model.False) })
	h.at(15*second, func() { h.stop("a") }) // unreachable at 50 s, like b
	h.at(16*second, func() { h.stop("b") })
	h.run(100 * second)
	// c is tainted at once, d at 40 s. From 50 s on the zone is partially disrupted: no node is
	// tainted NoExecute.
	h.expect("taint", "5 taint c +not-ready:NoSchedule", "5 taint c +not-ready:NoExecute",
		"40 taint d +unreachable:NoSchedule", "40 taint d +unreachable:NoExecute",
		"50 taint a +unreachable:NoSchedule", "50 taint b +unreachable:NoSchedule")
}

func TestTaint_ReturnedAndDeletedNodesCostNoToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 12 {
		h.node(fmt.Sprintf("n%02d", i))
	}
	h.at(0, func() { h.stop("n00", "n01", "n02", "n03", "n04") })
	h.at(55*second, func() { h.resume("n02") })
	h.at(56*second, func() { h.deleteNode("n03") })
	h.run(150 * second)
	h.expectNoExecute("40 n00", "50 n01", "60 n04")
}

// TestTaint_NodeDeletedBeforeWriteCostsNoToken checks that nodes deleted before the
// first write to them cost no token.
func TestTaint_NodeDeletedBeforeWriteCostsNoToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.faults = func(a *fleetAction) fault {
		if a.Node == "n0" && a.Kind == taintKind {
			return fault{carried: 3 * second}
		}
		return fault{}
	}
	h.at(0, func() { h.stop("n0", "n1", "n2") })
	h.at(41*second, func() { h.deleteNode("n0") })
	h.run(100 * second)
	h.expectNoExecute("40 n0", "43 n1", "53 n2")
}

// expectNoExecute compares the NoExecute taints with their times.
func (h *harness) expectNoExecute(want ...string) {
	h.tb.Helper()
	var got []string
	for _, l := range h.of("taint") {
		var at, node, what string
		if _, err := fmt.Sscanf(l, "%s taint %s %s", &at, &node, &what); err == nil && (what == "+unreachable:NoExecute" || what == "+not-ready:NoExecute") {
			got = append(got, at+" "+node)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.tb.Errorf("NoExecute taints: got %v, want %v", got, want)
	}
}

func TestTaint_FailedWriteReturnsToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.at(0, func() { h.stop("n0", "n1", "n2") })
	refused := 0
	h.faults = func(a *fleetAction) fault {
		if a.Kind == taintKind && a.Node == "n0" && refused < 3 {
			refused++
			return fault{err: errFault}
		}
		return fault{}
	}
	h.run(100 * second)
	// n1 gets the token that n0 could not use; n0, of the same age, precedes n2.
	h.expectNoExecute("40 n0", "40 n1", "50 n0", "60 n2")
}

func TestTaint_SmallZoneStopsAndResumes(t *testing.T) {
	for _, rate := range []float64{0.1, 1} {
		p := taintMode()
		p.Zones.Rate = rate
		h := newHarness(t, p)
		for i := range 5 {
			h.node(fmt.Sprintf("a%d", i))
		}
		h.node("b", in("y"))
		h.at(60*second, func() { h.stop("a0", "a1", "a2") })
		h.at(900*second, func() { h.resume("a2") })
		h.run(1000 * second)
		one := 900 + 1/rate
		h.expectNoExecute(fmt.Sprint(one, " a0"), fmt.Sprint(one+1/rate, " a1"))
	}
}

func TestFullDisruption_RemovesTaintsAndCancelsEvictions(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b", in("y"))
	h.node("c", in("y"))
	for _, n := range []string{"a", "b", "c"} {
		h.pod("on-"+n, n, defaultTolerations(300)...)
	}
	h.pod("bothered", "a", append(defaultTolerations(300), tolerates("user", 100))...)
	h.at(0, func() { h.stop("a", "b") })
	h.at(60*second, func() { h.stop("c") })
	h.at(150*second, func() { h.taint("a", "user") })
	h.at(500*second, func() { h.resume("c") })
	h.run(900 * second)
	h.expect("taint evict cancel zone",
		"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1",
		"40 zone r/z FullDisruption 0.1",
		"40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute",
		"40 taint b +unreachable:NoSchedule", "40 taint b +unreachable:NoExecute",
		"90 zone r/y FullDisruption 0", "90 zone r/z FullDisruption 0",
		"90 taint a -unreachable:NoExecute", "90 taint b -unreachable:NoExecute", "90 taint c +unreachable:NoSchedule",
		"90 cancel a bothered", "90 cancel a on-a", "90 cancel b on-b",
		"150 evict a on-a taint",
		"250 evict a bothered taint",
		"500 zone r/y Normal 0.1", "500 zone r/z FullDisruption 0.1",
		"500 taint c -unreachable:NoSchedule",
		"510 taint a +unreachable:NoExecute", "510 taint b +unreachable:NoExecute",
		"810 evict b on-b taint")
}

func TestFullDisruption_CancelsDespiteFailedUntaints(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a", defaultTolerations(100)...)
	h.at(5*second, func() { h.stop("a") })
	h.at(65*second, func() { h.stop("b") })
	h.at(70*second, func() { h.faults = func(*fleetAction) fault { return fault{err: errFault} } })
	h.run(300 * second)
	h.expect("evict cancel", "100 cancel a p")
}

func TestHeartbeat_RemovesNodeFromQueue(t *testing.T) {
	for name, p := range map[string]func(h *harness){
		"lease renewed from now on": func(h *harness) {
			h.kubelets["b"].lease = true
			h.renewLease("b", h.kubelets["b"].generation)
		},
		"single renewal": func(h *harness) { h.fleet.Renewed("b", h.now, h.now, h.now) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			for _, n := range []string{"a", "b", "c", "d", "e"} {
				h.node(n)
			}
			h.at(5*second, func() { h.stop("a", "b") })
			h.at(45*second, func() { p(h) })
			h.run(80 * second)
			h.expectNoExecute("40 a")
			h.run(100 * second)
			if lone := name == "single renewal"; lone {
				h.expectNoExecute("40 a", "85 b")
			} else {
				h.expectNoExecute("40 a")
			}
		})
	}
}

func TestTaint_LargeZoneUsesSecondaryRate(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 2500 {
		h.node(fmt.Sprintf("n%04d", i), in(fmt.Sprint("z", i%2)))
	}
	h.at(5*second, func() {
		for i := 0; i < 2000; i += 2 {
			h.stop(fmt.Sprintf("n%04d", i))
		}
	})
	h.run(145 * second)
	// 1000 of 1250: partially disrupted and large, 0.01 nodes a second.
	h.expectNoExecute("40 n0000", "140 n0002")
	if n := len(h.of("condition")); n != 4*1000 {
		t.Errorf("got %d conditions, want 4000", n)
	}
}
