package taints_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

var (
	start = time.Unix(1_000_000, 0)
	later = start.Add(time.Minute)
)

const prefix = "node.kubernetes.io/"

// reports returns a node with these conditions.
func reports(conditions map[model.ConditionType]model.Status, has ...model.Taint) *model.Node {
	n := &model.Node{Name: "a", Taints: has}
	for t, s := range conditions {
		n.Conditions[t].Status = s
	}
	return n
}

func keeps(key string) model.Taint { return model.Taint{Key: key, Effect: model.NoSchedule} }

func drives(key string, added time.Time) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: added}
}

// said formats a change as "+key -key", without the common prefix.
func said(c taints.Change) (s []string) {
	for _, t := range c.Add {
		s = append(s, "+"+t.Key[len(prefix):])
	}
	for _, t := range c.Remove {
		s = append(s, "-"+t.Key[len(prefix):])
	}
	return s
}

type conditions = map[model.ConditionType]model.Status

func TestSchedulingFollowsTheConditions(t *testing.T) {
	well := conditions{model.Ready: model.True, model.MemoryPressure: model.False, model.DiskPressure: model.False, model.PIDPressure: model.False, model.NetworkUnavailable: model.False}
	but := func(c model.ConditionType, s model.Status) conditions {
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
		node *model.Node
		want []string
	}{
		{"a node that is well", reports(well), nil},
		{"a node that says nothing", reports(nil), nil},
		{"it is not ready", reports(but(model.Ready, model.False)), []string{"+not-ready"}},
		{"it is not heard of", reports(but(model.Ready, model.Unknown)), []string{"+unreachable"}},
		{"memory", reports(but(model.MemoryPressure, model.True)), []string{"+memory-pressure"}},
		{"disk", reports(but(model.DiskPressure, model.True)), []string{"+disk-pressure"}},
		{"processes", reports(but(model.PIDPressure, model.True)), []string{"+pid-pressure"}},
		{"the network is not there yet", reports(but(model.NetworkUnavailable, model.True)), []string{"+network-unavailable"}},
		{"nobody knows whether there is pressure", reports(conditions{model.Ready: model.True, model.MemoryPressure: model.Unknown, model.NetworkUnavailable: model.Unknown}), nil},
		{"no network, and so not ready", reports(conditions{model.Ready: model.False, model.NetworkUnavailable: model.True}), []string{"+network-unavailable", "+not-ready"}},
		{"the network came, the rest did not", reports(conditions{model.Ready: model.False, model.NetworkUnavailable: model.False}, keeps(model.KeyNetworkUnavailable), keeps(model.KeyNotReady)), []string{"-network-unavailable"}},
		{"not ready, then silent", reports(but(model.Ready, model.Unknown), keeps(model.KeyNotReady)), []string{"+unreachable", "-not-ready"}},
		{"silent, then it says that it is not ready", reports(but(model.Ready, model.False), keeps(model.KeyUnreachable)), []string{"+not-ready", "-unreachable"}},
		{"well again", reports(well, keeps(model.KeyUnreachable), keeps(model.KeyPIDPressure)), []string{"-pid-pressure", "-unreachable"}},
		{"what there is stays", reports(but(model.DiskPressure, model.True), model.Taint{Key: model.KeyDiskPressure, Value: "full", Effect: model.NoSchedule, Added: start}), nil},
		{"another effect is another taint", reports(but(model.Ready, model.Unknown), drives(model.KeyUnreachable, start)), []string{"+unreachable"}},
		{"and is not removed", reports(well, drives(model.KeyNotReady, start), model.Taint{Key: model.KeyMemoryPressure, Effect: model.PreferNoSchedule}), nil},
		{"cordoned", &model.Node{Unschedulable: true}, []string{"+unschedulable"}},
		{"uncordoned", reports(well, keeps(model.KeyUnschedulable)), []string{"-unschedulable"}},
		{"a user's taints are the user's", reports(well, keeps("dedicated"), keeps(model.KeyOutOfService), keeps(prefix+"something")), nil},
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
				if taint.Effect != model.NoSchedule {
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
	const notReady, unreachable = model.KeyNotReady, model.KeyUnreachable
	for _, c := range []struct {
		name   string
		has    []model.Taint
		want   string
		added  []model.Taint
		remove []string
		swap   bool
	}{
		{"lost", nil, unreachable, []model.Taint{drives(unreachable, later)}, nil, false},
		{"not ready", nil, notReady, []model.Taint{drives(notReady, later)}, nil, false},
		{"well", nil, "", nil, nil, false},
		{"lost for a while", []model.Taint{drives(unreachable, start)}, unreachable, nil, nil, false},
		{"back and well", []model.Taint{drives(unreachable, start)}, "", nil, []string{"-unreachable"}, false},
		{"back, but not ready: as long lost as before", []model.Taint{drives(unreachable, start)}, notReady, []model.Taint{drives(notReady, start)}, []string{"-unreachable"}, true},
		{"not ready, then lost", []model.Taint{drives(notReady, start)}, unreachable, []model.Taint{drives(unreachable, start)}, []string{"-not-ready"}, true},
		{"nobody wrote down since when", []model.Taint{drives(notReady, time.Time{})}, unreachable, []model.Taint{drives(unreachable, later)}, []string{"-not-ready"}, true},
		{"both, after half a swap", []model.Taint{drives(notReady, start), drives(unreachable, later)}, unreachable, nil, []string{"-not-ready"}, true},
		{"both, and well", []model.Taint{drives(unreachable, start), drives(notReady, start)}, "", nil, []string{"-not-ready", "-unreachable"}, false},
		{"others stay", []model.Taint{drives("k", start), keeps(notReady), drives(model.KeyOutOfService, start)}, "", nil, nil, false},
		{"another effect is no swap", []model.Taint{keeps(notReady)}, unreachable, []model.Taint{drives(unreachable, later)}, nil, false},
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
	is := func(value string) model.Label { return model.Label{Value: value, Is: true} }
	for _, c := range []struct {
		name   string
		labels model.Labels
		want   []taints.LabelChange
	}{
		{"none at all", model.Labels{}, nil},
		{"only others", model.Labels{Region: "r", Zone: "z", Excluded: true}, nil},
		{"the older ones are missing", model.Labels{OS: is("linux"), Arch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/arch", "arm64"}, {"beta.kubernetes.io/os", "linux"}}},
		{"an older one is wrong", model.Labels{OS: is("linux"), OldOS: is("plan9"), Arch: is("arm64"), OldArch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/os", "linux"}}},
		{"all is well", model.Labels{OS: is("linux"), OldOS: is("linux")}, nil},
		{"without a stable one nothing is known", model.Labels{OldOS: is("linux"), OldArch: is("arm")}, nil},
		{"an empty value is one", model.Labels{OS: is("")}, []taints.LabelChange{{"beta.kubernetes.io/os", ""}}},
	} {
		if got := taints.Labels(&c.labels); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v instead of %v", c.name, got, c.want)
		}
	}
}

// apply applies a change to a node.
func apply(n *model.Node, c taints.Change) {
	for _, gone := range c.Remove {
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Is(gone.Key, gone.Effect) })
	}
	n.Taints = append(n.Taints, c.Add...)
}

// ours reports whether the taint is managed by this package.
func ours(t model.Taint) bool {
	keys := []string{model.KeyNotReady, model.KeyUnreachable}
	if t.Effect == model.NoSchedule {
		keys = append(keys, model.KeyMemoryPressure, model.KeyDiskPressure, model.KeyPIDPressure, model.KeyNetworkUnavailable, model.KeyUnschedulable)
	}
	return (t.Effect == model.NoSchedule || t.Effect == model.NoExecute) && slices.Contains(keys, t.Key)
}

func randomNode(r *rand.Rand) *model.Node {
	n := &model.Node{Unschedulable: r.IntN(2) == 0}
	for i := range n.Conditions {
		n.Conditions[i].Status = model.Status(r.IntN(4))
	}
	for _, key := range []string{"k", model.KeyNotReady, model.KeyUnreachable, model.KeyMemoryPressure, model.KeyDiskPressure, model.KeyPIDPressure, model.KeyNetworkUnavailable, model.KeyUnschedulable, model.KeyOutOfService} {
		for e := model.NoSchedule; e <= model.NoExecute; e++ {
			if r.IntN(3) == 0 {
				n.Taints = append(n.Taints, model.Taint{Key: key, Effect: e, Added: start.Add(time.Duration(r.IntN(9)) * time.Second)})
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
		want := [...]string{model.True: "", model.False: model.KeyNotReady, model.Unknown: model.KeyUnreachable, model.Absent: ""}[n.Conditions[model.Ready].Status]
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

// checkUntouched checks that foreign taints, and taints that stayed, are unchanged.
func checkUntouched(t *testing.T, before, after []model.Taint) {
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

// checkMoments checks that at most one NoExecute taint exists, with its own time or that of its
// predecessor.
func checkMoments(t *testing.T, before, after []model.Taint, want string) {
	t.Helper()
	since := map[string]time.Time{}
	for _, taint := range before {
		if taint.Effect == model.NoExecute && ours(taint) {
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
		if taint.Effect == model.NoExecute && ours(taint) && (taint.Key != want || !taint.Added.Equal(expected)) {
			t.Fatalf("%+v, where %q since %v is wanted", taint, want, expected)
		}
	}
}

func BenchmarkSchedulingOfANodeThatIsWell(b *testing.B) {
	n := reports(conditions{model.Ready: model.True, model.MemoryPressure: model.False}, keeps("k"))
	b.ReportAllocs()
	for b.Loop() {
		if c := taints.Scheduling(n, later); !c.Empty() {
			b.Fatal(c)
		}
	}
}
