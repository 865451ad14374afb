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

// nodeWith returns a node with these conditions.
func nodeWith(conditions map[model.ConditionType]model.Status, present ...model.Taint) *model.Node {
	n := &model.Node{Name: "a", Taints: present}
	for t, s := range conditions {
		n.Conditions[t].Status = s
	}
	return n
}

func noSchedule(key string) model.Taint { return model.Taint{Key: key, Effect: model.NoSchedule} }

func noExecute(key string, added time.Time) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: added}
}

// format formats a change as "+key -key", without the common prefix.
func format(c taints.Change) (s []string) {
	for _, t := range c.Add {
		s = append(s, "+"+t.Key[len(prefix):])
	}
	for _, t := range c.Remove {
		s = append(s, "-"+t.Key[len(prefix):])
	}
	return s
}

type conditions = map[model.ConditionType]model.Status

func TestScheduling_FollowsConditions(t *testing.T) {
	healthy := conditions{model.Ready: model.True, model.MemoryPressure: model.False, model.DiskPressure: model.False, model.PIDPressure: model.False, model.NetworkUnavailable: model.False}
	but := func(c model.ConditionType, s model.Status) conditions {
		all := conditions{c: s}
		for other, status := range healthy {
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
		{"healthy node", nodeWith(healthy), nil},
		{"no conditions", nodeWith(nil), nil},
		{"not ready", nodeWith(but(model.Ready, model.False)), []string{"+not-ready"}},
		{"ready unknown", nodeWith(but(model.Ready, model.Unknown)), []string{"+unreachable"}},
		{"memory pressure", nodeWith(but(model.MemoryPressure, model.True)), []string{"+memory-pressure"}},
		{"disk pressure", nodeWith(but(model.DiskPressure, model.True)), []string{"+disk-pressure"}},
		{"PID pressure", nodeWith(but(model.PIDPressure, model.True)), []string{"+pid-pressure"}},
		{"network unavailable", nodeWith(but(model.NetworkUnavailable, model.True)), []string{"+network-unavailable"}},
		{"pressure unknown", nodeWith(conditions{model.Ready: model.True, model.MemoryPressure: model.Unknown, model.NetworkUnavailable: model.Unknown}), nil},
		{"network unavailable and not ready", nodeWith(conditions{model.Ready: model.False, model.NetworkUnavailable: model.True}), []string{"+network-unavailable", "+not-ready"}},
		{"network available, still not ready", nodeWith(conditions{model.Ready: model.False, model.NetworkUnavailable: model.False}, noSchedule(model.KeyNetworkUnavailable), noSchedule(model.KeyNotReady)), []string{"-network-unavailable"}},
		{"not ready, then unknown", nodeWith(but(model.Ready, model.Unknown), noSchedule(model.KeyNotReady)), []string{"+unreachable", "-not-ready"}},
		{"unknown, then not ready", nodeWith(but(model.Ready, model.False), noSchedule(model.KeyUnreachable)), []string{"+not-ready", "-unreachable"}},
		{"healthy again", nodeWith(healthy, noSchedule(model.KeyUnreachable), noSchedule(model.KeyPIDPressure)), []string{"-pid-pressure", "-unreachable"}},
		{"existing taint", nodeWith(but(model.DiskPressure, model.True), model.Taint{Key: model.KeyDiskPressure, Value: "full", Effect: model.NoSchedule, Added: start}), nil},
		{"same key, another effect", nodeWith(but(model.Ready, model.Unknown), noExecute(model.KeyUnreachable, start)), []string{"+unreachable"}},
		{"healthy, other effects", nodeWith(healthy, noExecute(model.KeyNotReady, start), model.Taint{Key: model.KeyMemoryPressure, Effect: model.PreferNoSchedule}), nil},
		{"cordoned", &model.Node{Unschedulable: true}, []string{"+unschedulable"}},
		{"uncordoned", nodeWith(healthy, noSchedule(model.KeyUnschedulable)), []string{"-unschedulable"}},
		{"taints of users", nodeWith(healthy, noSchedule("dedicated"), noSchedule(model.KeyOutOfService), noSchedule(prefix+"something")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := taints.Scheduling(c.node, later)
			if !slices.Equal(format(got), c.want) {
				t.Errorf("got %q, want %q", format(got), c.want)
			}
			if got.Empty() != (len(c.want) == 0) {
				t.Errorf("Empty returned %v", got.Empty())
			}
			for _, taint := range slices.Concat(got.Add, got.Remove) {
				if taint.Effect != model.NoSchedule {
					t.Errorf("%s has effect %s", taint.Key, taint.Effect)
				}
			}
			for _, taint := range got.Add {
				if !taint.Added.Equal(later) {
					t.Errorf("%s: added at %s, want %s", taint.Key, taint.Added, later)
				}
			}
		})
	}
}

func TestExecution_SwapKeepsTimeAdded(t *testing.T) {
	const notReady, unreachable = model.KeyNotReady, model.KeyUnreachable
	for _, c := range []struct {
		name    string
		present []model.Taint
		want    string
		added   []model.Taint
		remove  []string
	}{
		{"lost", nil, unreachable, []model.Taint{noExecute(unreachable, later)}, nil},
		{"not ready", nil, notReady, []model.Taint{noExecute(notReady, later)}, nil},
		{"healthy", nil, "", nil, nil},
		{"lost, tainted already", []model.Taint{noExecute(unreachable, start)}, unreachable, nil, nil},
		{"healthy again", []model.Taint{noExecute(unreachable, start)}, "", nil, []string{"-unreachable"}},
		{"lost, then not ready", []model.Taint{noExecute(unreachable, start)}, notReady, []model.Taint{noExecute(notReady, start)}, []string{"-unreachable"}},
		{"not ready, then lost", []model.Taint{noExecute(notReady, start)}, unreachable, []model.Taint{noExecute(unreachable, start)}, []string{"-not-ready"}},
		{"taint without timeAdded", []model.Taint{noExecute(notReady, time.Time{})}, unreachable, []model.Taint{noExecute(unreachable, later)}, []string{"-not-ready"}},
		{"both taints, half a swap", []model.Taint{noExecute(notReady, start), noExecute(unreachable, later)}, unreachable, nil, []string{"-not-ready"}},
		{"both taints, healthy", []model.Taint{noExecute(unreachable, start), noExecute(notReady, start)}, "", nil, []string{"-not-ready", "-unreachable"}},
		{"taints of others", []model.Taint{noExecute("k", start), noSchedule(notReady), noExecute(model.KeyOutOfService, start)}, "", nil, nil},
		{"same key, another effect", []model.Taint{noSchedule(notReady)}, unreachable, []model.Taint{noExecute(unreachable, later)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nodeWith(nil, c.present...)
			got := taints.Execution(n, c.want, later)
			if !slices.Equal(got.Add, c.added) {
				t.Errorf("added %+v, want %+v", got.Add, c.added)
			}
			if removed := format(taints.Change{Remove: got.Remove}); !slices.Equal(removed, c.remove) {
				t.Errorf("removed %q, want %q", removed, c.remove)
			}
		})
	}
}

func TestLabels_RestoresBetaLabels(t *testing.T) {
	is := func(value string) model.Label { return model.Label{Value: value, Is: true} }
	for _, c := range []struct {
		name   string
		labels model.Labels
		want   []taints.LabelChange
	}{
		{"no labels", model.Labels{}, nil},
		{"only other labels", model.Labels{Region: "r", Zone: "z", Excluded: true}, nil},
		{"beta labels missing", model.Labels{OS: is("linux"), Arch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/arch", "arm64"}, {"beta.kubernetes.io/os", "linux"}}},
		{"beta label differs", model.Labels{OS: is("linux"), OldOS: is("plan9"), Arch: is("arm64"), OldArch: is("arm64")}, []taints.LabelChange{{"beta.kubernetes.io/os", "linux"}}},
		{"labels equal", model.Labels{OS: is("linux"), OldOS: is("linux")}, nil},
		{"no stable labels", model.Labels{OldOS: is("linux"), OldArch: is("arm")}, nil},
		{"empty value", model.Labels{OS: is("")}, []taints.LabelChange{{"beta.kubernetes.io/os", ""}}},
	} {
		if got := taints.Labels(&c.labels); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
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

// managed reports whether the taint is managed by this package.
func managed(t model.Taint) bool {
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

func TestChange_ReachesStableState(t *testing.T) {
	for i := range 10_000 {
		n := randomNode(rand.New(rand.NewPCG(1, uint64(i))))
		before := slices.Clone(n.Taints)
		want := [...]string{model.True: "", model.False: model.KeyNotReady, model.Unknown: model.KeyUnreachable, model.Absent: ""}[n.Conditions[model.Ready].Status]
		scheduling, execution := taints.Scheduling(n, later), taints.Execution(n, want, later)
		if !slices.Equal(n.Taints, before) {
			t.Fatalf("node %d was modified", i)
		}
		apply(n, scheduling)
		apply(n, execution)
		if moreScheduling, moreExecution := taints.Scheduling(n, later), taints.Execution(n, want, later); !moreScheduling.Empty() || !moreExecution.Empty() {
			t.Fatalf("node %d: after %v and %v got further changes %v and %v", i, scheduling, execution, moreScheduling, moreExecution)
		}
		checkUntouched(t, before, n.Taints)
		checkTimes(t, before, n.Taints, want)
	}
}

// checkUntouched checks that foreign taints, and taints that stayed, are unchanged.
func checkUntouched(t *testing.T, before, after []model.Taint) {
	t.Helper()
	for _, taint := range before {
		if !managed(taint) && !slices.Contains(after, taint) {
			t.Fatalf("foreign taint %+v was removed", taint)
		}
	}
	seen := map[string]bool{}
	for _, taint := range after {
		id := fmt.Sprint(taint.Key, taint.Effect)
		if seen[id] {
			t.Fatalf("duplicate taint %s", id)
		}
		seen[id] = true
		if !managed(taint) && !slices.Contains(before, taint) {
			t.Fatalf("foreign taint %+v was added", taint)
		}
	}
}

// checkTimes checks that at most one NoExecute taint exists, with its own time or that of its
// predecessor.
func checkTimes(t *testing.T, before, after []model.Taint, want string) {
	t.Helper()
	since := map[string]time.Time{}
	for _, taint := range before {
		if taint.Effect == model.NoExecute && managed(taint) {
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
		if taint.Effect == model.NoExecute && managed(taint) && (taint.Key != want || !taint.Added.Equal(expected)) {
			t.Fatalf("got %+v, want key %q added at %v", taint, want, expected)
		}
	}
}

func BenchmarkScheduling_HealthyNode(b *testing.B) {
	n := nodeWith(conditions{model.Ready: model.True, model.MemoryPressure: model.False}, noSchedule("k"))
	b.ReportAllocs()
	for b.Loop() {
		if c := taints.Scheduling(n, later); !c.Empty() {
			b.Fatal(c)
		}
	}
}
