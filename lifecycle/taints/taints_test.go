package taints_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/facts"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

var (
	start = time.Unix(1_000_000, 0)
	later = start.Add(time.Minute)
)

const prefix = "node.kubernetes.io/"

// reports makes a node with these conditions.
func reports(conditions map[facts.ConditionType]facts.Status, has ...facts.Taint) *facts.Node {
	n := &facts.Node{Name: "a", Taints: has}
	for t, s := range conditions {
		n.Conditions[t].Status = s
	}
	return n
}

func keeps(key string) facts.Taint { return facts.Taint{Key: key, Effect: facts.NoSchedule} }

func drives(key string, added time.Time) facts.Taint {
	return facts.Taint{Key: key, Effect: facts.NoExecute, Added: added}
}

// said is a change as "+key -key", without the prefix that they share.
func said(c taints.Change) (s []string) {
	for _, t := range c.Add {
		s = append(s, "+"+t.Key[len(prefix):])
	}
	for _, t := range c.Remove {
		s = append(s, "-"+t.Key[len(prefix):])
	}
	return s
}

type conditions = map[facts.ConditionType]facts.Status

func TestSchedulingFollowsTheConditions(t *testing.T) {
	well := conditions{facts.Ready: facts.True, facts.MemoryPressure: facts.False, facts.DiskPressure: facts.False, facts.PIDPressure: facts.False, facts.NetworkUnavailable: facts.False}
	but := func(c facts.ConditionType, s facts.Status) conditions {
		all := conditions{c: s}
		for other, status := range well {
			if other != c {
				all[other] = status
			}
		}
		return all
	}
	for _, c := range []struct {
		name string
		node *facts.Node
		want []string
	}{
		{"a node that is well", reports(well), nil},
		{"a node that says nothing", reports(nil), nil},
		{"it is not ready", reports(but(facts.Ready, facts.False)), []string{"+not-ready"}},
		{"it is not heard of", reports(but(facts.Ready, facts.Unknown)), []string{"+unreachable"}},
		{"memory", reports(but(facts.MemoryPressure, facts.True)), []string{"+memory-pressure"}},
		{"disk", reports(but(facts.DiskPressure, facts.True)), []string{"+disk-pressure"}},
		{"processes", reports(but(facts.PIDPressure, facts.True)), []string{"+pid-pressure"}},
		{"the network is not there yet", reports(but(facts.NetworkUnavailable, facts.True)), []string{"+network-unavailable"}},
		{"nobody knows whether there is pressure", reports(conditions{facts.Ready: facts.True, facts.MemoryPressure: facts.Unknown, facts.NetworkUnavailable: facts.Unknown}), nil},
		{"no network, and so not ready", reports(conditions{facts.Ready: facts.False, facts.NetworkUnavailable: facts.True}), []string{"+network-unavailable", "+not-ready"}},
		{"the network came, the rest did not", reports(conditions{facts.Ready: facts.False, facts.NetworkUnavailable: facts.False}, keeps(facts.KeyNetworkUnavailable), keeps(facts.KeyNotReady)), []string{"-network-unavailable"}},
		{"not ready, then silent", reports(but(facts.Ready, facts.Unknown), keeps(facts.KeyNotReady)), []string{"+unreachable", "-not-ready"}},
		{"silent, then it says that it is not ready", reports(but(facts.Ready, facts.False), keeps(facts.KeyUnreachable)), []string{"+not-ready", "-unreachable"}},
		{"well again", reports(well, keeps(facts.KeyUnreachable), keeps(facts.KeyPIDPressure)), []string{"-pid-pressure", "-unreachable"}},
		{"what there is stays", reports(but(facts.DiskPressure, facts.True), facts.Taint{Key: facts.KeyDiskPressure, Value: "full", Effect: facts.NoSchedule, Added: start}), nil},
		{"another effect is another taint", reports(but(facts.Ready, facts.Unknown), drives(facts.KeyUnreachable, start)), []string{"+unreachable"}},
		{"and is not removed", reports(well, drives(facts.KeyNotReady, start), facts.Taint{Key: facts.KeyMemoryPressure, Effect: facts.PreferNoSchedule}), nil},
		{"cordoned", &facts.Node{Unschedulable: true}, []string{"+unschedulable"}},
		{"uncordoned", reports(well, keeps(facts.KeyUnschedulable)), []string{"-unschedulable"}},
		{"a user's taints are the user's", reports(well, keeps("dedicated"), keeps(facts.KeyOutOfService), keeps(prefix+"something")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := taints.Scheduling(c.node, later)
			if !slices.Equal(said(got), c.want) {
				t.Errorf("%q instead of %q", said(got), c.want)
			}
			if got.Empty() != (len(c.want) == 0) {
				t.Errorf("empty: %v", got.Empty())
			}
			for _, taint := range slices.Concat(got.Add, got.Remove) {
				if taint.Effect != facts.NoSchedule {
					t.Errorf("%s has effect %s", taint.Key, taint.Effect)
				}
			}
			for _, taint := range got.Add {
				if !taint.Added.Equal(later) {
					t.Errorf("%s is there since %s", taint.Key, taint.Added)
				}
			}
		})
	}
}

func TestExecution(t *testing.T) {
	const notReady, unreachable = facts.KeyNotReady, facts.KeyUnreachable
	for _, c := range []struct {
		name   string
		has    []facts.Taint
		want   string
		added  []facts.Taint
		remove []string
		swap   bool
	}{
		{"lost", nil, unreachable, []facts.Taint{drives(unreachable, later)}, nil, false},
		{"not ready", nil, notReady, []facts.Taint{drives(notReady, later)}, nil, false},
		{"well", nil, "", nil, nil, false},
		{"lost for a while", []facts.Taint{drives(unreachable, start)}, unreachable, nil, nil, false},
		{"back and well", []facts.Taint{drives(unreachable, start)}, "", nil, []string{"-unreachable"}, false},
		{"back, but not ready: as long lost as before", []facts.Taint{drives(unreachable, start)}, notReady, []facts.Taint{drives(notReady, start)}, []string{"-unreachable"}, true},
		{"not ready, then lost", []facts.Taint{drives(notReady, start)}, unreachable, []facts.Taint{drives(unreachable, start)}, []string{"-not-ready"}, true},
		{"nobody wrote down since when", []facts.Taint{drives(notReady, time.Time{})}, unreachable, []facts.Taint{drives(unreachable, later)}, []string{"-not-ready"}, true},
		{"both, after half a swap", []facts.Taint{drives(notReady, start), drives(unreachable, later)}, unreachable, nil, []string{"-not-ready"}, true},
		{"both, and well", []facts.Taint{drives(unreachable, start), drives(notReady, start)}, "", nil, []string{"-not-ready", "-unreachable"}, false},
		{"others stay", []facts.Taint{drives("k", start), keeps(notReady), drives(facts.KeyOutOfService, start)}, "", nil, nil, false},
		{"another effect is no swap", []facts.Taint{keeps(notReady)}, unreachable, []facts.Taint{drives(unreachable, later)}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := reports(nil, c.has...)
			got := taints.Execution(n, c.want, later)
			if !slices.Equal(got.Add, c.added) {
				t.Errorf("adds %+v instead of %+v", got.Add, c.added)
			}
			if removed := said(taints.Change{Remove: got.Remove}); !slices.Equal(removed, c.remove) {
				t.Errorf("removes %q instead of %q", removed, c.remove)
			}
			if taints.Swap(n, c.want) != c.swap {
				t.Errorf("swap: %v", !c.swap)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	is := func(value string) facts.Label { return facts.Label{Value: value, Is: true} }
	for _, c := range []struct {
		name   string
		labels facts.Labels
		want   []taints.LabelChange
	}{
		{"none at all", facts.Labels{}, nil},
		{"only others", facts.Labels{Region: "r", Zone: "z", Excluded: true}, nil},
		{"the older ones are missing", facts.Labels{OS: is("linux"), Arch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/arch", "arm64"}, {"beta.kubernetes.io/os", "linux"}}},
		{"an older one is wrong", facts.Labels{OS: is("linux"), OldOS: is("plan9"), Arch: is("arm64"), OldArch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/os", "linux"}}},
		{"all is well", facts.Labels{OS: is("linux"), OldOS: is("linux")}, nil},
		{"without a stable one nothing is known", facts.Labels{OldOS: is("linux"), OldArch: is("arm")}, nil},
		{"an empty value is one", facts.Labels{OS: is("")}, []taints.LabelChange{{"beta.kubernetes.io/os", ""}}},
	} {
		if got := taints.Labels(&c.labels); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v instead of %v", c.name, got, c.want)
		}
	}
}

// apply carries a change out.
func apply(n *facts.Node, c taints.Change) {
	for _, gone := range c.Remove {
		n.Taints = slices.DeleteFunc(n.Taints, func(t facts.Taint) bool { return t.Is(gone.Key, gone.Effect) })
	}
	n.Taints = append(n.Taints, c.Add...)
}

// ours are the taints that are touched.
func ours(t facts.Taint) bool {
	keys := []string{facts.KeyNotReady, facts.KeyUnreachable}
	if t.Effect == facts.NoSchedule {
		keys = append(keys, facts.KeyMemoryPressure, facts.KeyDiskPressure, facts.KeyPIDPressure, facts.KeyNetworkUnavailable, facts.KeyUnschedulable)
	}
	return (t.Effect == facts.NoSchedule || t.Effect == facts.NoExecute) && slices.Contains(keys, t.Key)
}

func randomNode(r *rand.Rand) *facts.Node {
	n := &facts.Node{Unschedulable: r.IntN(2) == 0}
	for i := range n.Conditions {
		n.Conditions[i].Status = facts.Status(r.IntN(4))
	}
	for _, key := range []string{"k", facts.KeyNotReady, facts.KeyUnreachable, facts.KeyMemoryPressure, facts.KeyDiskPressure, facts.KeyPIDPressure, facts.KeyNetworkUnavailable, facts.KeyUnschedulable, facts.KeyOutOfService} {
		for e := facts.NoSchedule; e <= facts.NoExecute; e++ {
			if r.IntN(3) == 0 {
				n.Taints = append(n.Taints, facts.Taint{Key: key, Effect: e, Added: start.Add(time.Duration(r.IntN(9)) * time.Second)})
			}
		}
	}
	r.Shuffle(len(n.Taints), func(i, j int) { n.Taints[i], n.Taints[j] = n.Taints[j], n.Taints[i] })
	return n
}

func TestAChangeIsAllThatIsNeeded(t *testing.T) {
	for i := range 10_000 {
		n := randomNode(rand.New(rand.NewPCG(1, uint64(i))))
		before := slices.Clone(n.Taints)
		want := [...]string{facts.True: "", facts.False: facts.KeyNotReady, facts.Unknown: facts.KeyUnreachable, facts.Absent: ""}[n.Conditions[facts.Ready].Status]
		scheduling, execution := taints.Scheduling(n, later), taints.Execution(n, want, later)
		if !slices.Equal(n.Taints, before) {
			t.Fatalf("node %d was changed", i)
		}
		apply(n, scheduling)
		apply(n, execution)
		if again, more := taints.Scheduling(n, later), taints.Execution(n, want, later); !again.Empty() || !more.Empty() {
			t.Fatalf("node %d: after %v and %v still %v and %v", i, scheduling, execution, again, more)
		}
		checkUntouched(t, before, n.Taints)
		checkMoments(t, before, n.Taints, want)
	}
}

// checkUntouched wants what others put there, and taints that stayed, as they were.
func checkUntouched(t *testing.T, before, after []facts.Taint) {
	t.Helper()
	for _, taint := range before {
		if !ours(taint) && !slices.Contains(after, taint) {
			t.Fatalf("%+v is gone", taint)
		}
	}
	seen := map[string]bool{}
	for _, taint := range after {
		id := fmt.Sprint(taint.Key, taint.Effect)
		if seen[id] {
			t.Fatalf("two of %s", id)
		}
		seen[id] = true
		if !ours(taint) && !slices.Contains(before, taint) {
			t.Fatalf("%+v was added", taint)
		}
	}
}

// checkMoments wants one NoExecute taint at most, there since it was there or
// since the other was.
func checkMoments(t *testing.T, before, after []facts.Taint, want string) {
	t.Helper()
	since := map[string]time.Time{}
	for _, taint := range before {
		if taint.Effect == facts.NoExecute && ours(taint) {
			since[taint.Key] = taint.Added
		}
	}
	expected, there := since[want]
	if !there {
		expected = later
		for _, other := range since {
			expected = other
		}
	}
	for _, taint := range after {
		if taint.Effect == facts.NoExecute && ours(taint) && (taint.Key != want || !taint.Added.Equal(expected)) {
			t.Fatalf("%+v, where %q since %v is wanted", taint, want, expected)
		}
	}
}

func BenchmarkSchedulingOfANodeThatIsWell(b *testing.B) {
	n := reports(conditions{facts.Ready: facts.True, facts.MemoryPressure: facts.False}, keeps("k"))
	b.ReportAllocs()
	for b.Loop() {
		if c := taints.Scheduling(n, later); !c.Empty() {
			b.Fatal(c)
		}
	}
}
