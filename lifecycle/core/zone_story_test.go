package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

func without(n *model.Node)  { n.Conditions = [model.ConditionTypes]model.Condition{} }
func excluded(n *model.Node) { n.Labels.Excluded = true }

var statesOfZones = []struct {
	name  string
	story func(w *world)
	want  []string
}{
	{"nodes without labels are one zone", func(w *world) {
		w.node("a", func(n *model.Node) { n.Labels = model.Labels{} })
		w.node("b", func(n *model.Node) { n.Labels = model.Labels{} })
	}, []string{"0 zone  Normal 0.1"}},
	{"one of two that are down returns", func(w *world) {
		w.node("a")
		w.node("b")
		w.at(0, func() { w.stop("a", "b") })
		w.at(100*second, func() { w.resume("a") })
	}, []string{"0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0", "100 zone r/z Normal 0.1"}},
	{"one of two zones that are down returns", func(w *world) {
		w.node("a")
		w.node("b", in("y"))
		w.at(0, func() { w.stop("a", "b") })
		w.at(100*second, func() { w.resume("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "40 zone r/y FullDisruption 0", "40 zone r/z FullDisruption 0", "100 zone r/y Normal 0.1", "100 zone r/z FullDisruption 0.1"}},
	{"nothing has reported, then one of four is ready", func(w *world) {
		for i := range 4 {
			w.silentFromBirth(fmt.Sprint("n", i))
		}
		w.at(30*second, func() { w.resume("n0") })
	}, []string{"0 zone r/z FullDisruption 0", "30 zone r/z PartialDisruption 0"}},
	{"partially disrupted from the start on", func(w *world) {
		w.node("up")
		w.node("a", without)
		w.node("b", without)
		w.node("c", without)
	}, []string{"0 zone r/z PartialDisruption 0"}},
	{"a third of five fails", func(w *world) {
		for i := range 5 {
			w.node(fmt.Sprint("n", i))
		}
		w.at(0, func() { w.stop("n0", "n1") })
		w.at(51*second, func() { w.stop("n2") })
	}, []string{"0 zone r/z Normal 0.1", "90 zone r/z PartialDisruption 0"}},
	{"the last healthy one fails", func(w *world) {
		w.node("a")
		w.node("b")
		w.node("elsewhere", in("y"))
		w.at(0, func() { w.stop("a") })
		w.at(51*second, func() { w.stop("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "90 zone r/z FullDisruption 0.1"}},
	{"both zones", func(w *world) {
		w.node("a")
		w.node("b", in("y"))
		w.at(0, func() { w.stop("a") })
		w.at(51*second, func() { w.stop("b") })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0.1", "90 zone r/y FullDisruption 0", "90 zone r/z FullDisruption 0"}},
	{"Ready was removed", func(w *world) {
		w.node("a")
		w.node("b", in("y"))
		w.at(5*second, func() { w.change("a", func(n *model.Node) { n.Conditions[model.Ready] = model.Condition{} }) })
	}, []string{"0 zone r/y Normal 0.1", "0 zone r/z Normal 0.1", "5 zone r/z FullDisruption 0.1"}},
	{"the only healthy one does not count", func(w *world) {
		w.node("a")
		w.node("apart", excluded)
		w.at(0, func() { w.stop("a") })
	}, []string{"0 zone r/z Normal 0.1", "40 zone r/z FullDisruption 0"}},
	{"nobody counts", func(w *world) {
		w.node("a", excluded)
		w.at(0, func() { w.stop("a") })
	}, []string{"0 zone r/z Normal 0.1"}},
	{"a node changes zones", func(w *world) {
		w.node("a")
		w.node("b")
		w.at(0, func() { w.stop("a") })
		w.at(50*second, func() { w.change("b", in("y")) })
	}, []string{"0 zone r/z Normal 0.1", "50 zone r/y Normal 0.1", "50 zone r/z FullDisruption 0.1"}},
}

func TestStatesOfZones(t *testing.T) {
	for _, c := range statesOfZones {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			c.story(w)
			w.run(150 * second)
			w.expect("zone", c.want...)
		})
	}
}

func TestANodeThatDoesNotCountLosesItsPodsToo(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a", func(n *model.Node) { n.Labels.Excluded = true })
	w.node("b")
	w.node("master-abc")
	w.pod("web", "a", usual(60)...)
	w.at(0, func() { w.stop("a", "master-abc") })
	w.run(200 * second)
	w.expect("taint evict",
		"40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute", "40 taint master-abc +unreachable:NoSchedule",
		"50 taint master-abc +unreachable:NoExecute", "100 evict a web taint")
}

func TestOldestDeathFirst(t *testing.T) {
	w := newWorld(t, taintMode())
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		w.node(name)
	}
	w.at(0, func() { w.stop("d") })
	w.at(5*second, func() { w.ready("c", model.False) })
	w.at(15*second, func() { w.stop("a") }) // dead at 50 s, like b
	w.at(16*second, func() { w.stop("b") })
	w.run(100 * second)
	// c went first, at once; d is dead at 40 s. From 50 s on the zone is partially disrupted:
	// no node is tainted then.
	w.expect("taint", "5 taint c +not-ready:NoSchedule", "5 taint c +not-ready:NoExecute",
		"40 taint d +unreachable:NoSchedule", "40 taint d +unreachable:NoExecute",
		"50 taint a +unreachable:NoSchedule", "50 taint b +unreachable:NoSchedule")
}

func TestReturnedAndDeletedNodesCostNoToken(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 12 {
		w.node(fmt.Sprintf("n%02d", i))
	}
	w.at(0, func() { w.stop("n00", "n01", "n02", "n03", "n04") })
	w.at(55*second, func() { w.resume("n02") })
	w.at(56*second, func() { w.deleteNode("n03") })
	w.run(150 * second)
	w.expectNoExecute("40 n00", "50 n01", "60 n04")
}

// TestANodeThatIsDeletedWhileItsTaintWaitsCostsNoToken checks that nodes deleted before the
// first write to them cost no token.
func TestANodeThatIsDeletedWhileItsTaintWaitsCostsNoToken(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.faults = func(a *fleetAction) fault {
		if a.Node == "n0" && a.Kind == taintKind {
			return fault{carried: 3 * second}
		}
		return fault{}
	}
	w.at(0, func() { w.stop("n0", "n1", "n2") })
	w.at(41*second, func() { w.deleteNode("n0") })
	w.run(100 * second)
	w.expectNoExecute("40 n0", "43 n1", "53 n2")
}

// expectNoExecute compares the NoExecute taints with their times.
func (w *world) expectNoExecute(want ...string) {
	w.tb.Helper()
	var got []string
	for _, l := range w.of("taint") {
		var at, node, what string
		if _, err := fmt.Sscanf(l, "%s taint %s %s", &at, &node, &what); err == nil && (what == "+unreachable:NoExecute" || what == "+not-ready:NoExecute") {
			got = append(got, at+" "+node)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.tb.Errorf("tainted NoExecute: %v instead of %v", got, want)
	}
}

func TestATokenIsSpentOnlyOnATaintThatIsWritten(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.at(0, func() { w.stop("n0", "n1", "n2") })
	refused := 0
	w.faults = func(a *fleetAction) fault {
		if a.Kind == taintKind && a.Node == "n0" && refused < 3 {
			refused++
			return fault{err: errFault}
		}
		return fault{}
	}
	w.run(100 * second)
	// n1 gets the token that n0 could not use; n0, of the same age, goes before n2.
	w.expectNoExecute("40 n0", "40 n1", "50 n0", "60 n2")
}

func TestASmallZoneStopsAndResumes(t *testing.T) {
	for _, rate := range []float64{0.1, 1} {
		p := taintMode()
		p.Zones.Rate = rate
		w := newWorld(t, p)
		for i := range 5 {
			w.node(fmt.Sprintf("a%d", i))
		}
		w.node("b", in("y"))
		w.at(60*second, func() { w.stop("a0", "a1", "a2") })
		w.at(900*second, func() { w.resume("a2") })
		w.run(1000 * second)
		one := 900 + 1/rate
		w.expectNoExecute(fmt.Sprint(one, " a0"), fmt.Sprint(one+1/rate, " a1"))
	}
}

func TestAllZonesFull(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b", in("y"))
	w.node("c", in("y"))
	for _, n := range []string{"a", "b", "c"} {
		w.pod("on-"+n, n, usual(300)...)
	}
	w.pod("bothered", "a", append(usual(300), bears("user", 100))...)
	w.at(0, func() { w.stop("a", "b") })
	w.at(60*second, func() { w.stop("c") })
	w.at(150*second, func() { w.taint("a", "user") })
	w.at(500*second, func() { w.resume("c") })
	w.run(900 * second)
	w.expect("taint evict cancel zone",
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

func TestAllFullEvictsNobodyThoughTaintsCannotBeRemoved(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a", usual(100)...)
	w.at(5*second, func() { w.stop("a") })
	w.at(65*second, func() { w.stop("b") })
	w.at(70*second, func() { w.faults = func(*fleetAction) fault { return fault{err: errFault} } })
	w.run(300 * second)
	w.expect("evict cancel", "100 cancel a p")
}

func TestANodeThatIsHeardAgainLosesItsTurn(t *testing.T) {
	for name, p := range map[string]func(w *world){
		"its lease alone": func(w *world) {
			w.beats["b"].lease = true
			w.renewLease("b", w.beats["b"].life)
		},
		"for a moment": func(w *world) { w.fleet.Renewed("b", w.now, w.now, w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			for _, n := range []string{"a", "b", "c", "d", "e"} {
				w.node(n)
			}
			w.at(5*second, func() { w.stop("a", "b") })
			w.at(45*second, func() { p(w) })
			w.run(80 * second)
			w.expectNoExecute("40 a")
			w.run(100 * second)
			if lone := name == "for a moment"; lone {
				w.expectNoExecute("40 a", "85 b")
			} else {
				w.expectNoExecute("40 a")
			}
		})
	}
}

func TestAThousandNodesOfAZoneDieAtOnce(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 2500 {
		w.node(fmt.Sprintf("n%04d", i), in(fmt.Sprint("z", i%2)))
	}
	w.at(5*second, func() {
		for i := 0; i < 2000; i += 2 {
			w.stop(fmt.Sprintf("n%04d", i))
		}
	})
	w.run(145 * second)
	// 1000 of 1250: partially disrupted and large, 0.01 nodes a second.
	w.expectNoExecute("40 n0000", "140 n0002")
	if n := len(w.of("condition")); n != 4*1000 {
		t.Errorf("%d conditions were written", n)
	}
}
