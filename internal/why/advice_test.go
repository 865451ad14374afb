package why_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/why"
	"plimsoll.dev/plimsoll/ranking"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// record returns the record of an eviction with the places of a ranking; the victim is the first with no
// reason to be passed over.
func record(s signals.Signal, keys ...ranking.Key) *decisionlog.Record {
	r := &decisionlog.Record{Decision: "evict", Signal: s.String(), Choice: &decisionlog.Choice{Cause: s.String(), Pods: len(keys)}}
	capacity := int64(8 * gib)
	r.Capacity = &capacity
	for i, k := range keys {
		k.Order = ranking.For(s)
		name := fmt.Sprintf("pod-%d", i)
		p := decisionlog.Place{Place: i + 1, Pod: "ns/" + name, UID: name, Key: k.With(k.Usage, k.Request, k.Priority)}
		if k.Protection != signals.Unprotected {
			p.Passed = k.Protection.String()
		} else if r.Pod == "" {
			r.Pod, r.UID = p.Pod, p.UID
		}
		r.Choice.Places = append(r.Choice.Places, p)
	}
	return r
}

func TestChanges_SmallestThatSaves(t *testing.T) {
	type key = ranking.Key
	type change struct {
		what     why.Figure
		from, to int64
	}
	for _, test := range []struct {
		about  string
		signal signals.Signal
		keys   []key
		want   []change
	}{
		{"both exceed their requests", signals.MemoryAvailable, []key{{Usage: 500 * mib, Request: 100 * mib}, {Usage: 300 * mib, Request: 200 * mib}},
			[]change{{why.Request, 100 * mib, 401 * mib}, {why.Usage, 500 * mib, 199 * mib}, {why.Priority, 0, 1}}}, // by UID, pod-0 is first of equal ones
		{"the next is within its request", signals.MemoryAvailable, []key{{Usage: 500 * mib, Request: 100 * mib}, {Usage: 300 * mib, Request: 400 * mib}},
			[]change{{why.Request, 100 * mib, 601 * mib}}}, // and 0 bytes would be nearer to no request
		{"the next is of a higher priority", signals.MemoryAvailable, []key{{Usage: 500 * mib, Request: 100 * mib, Priority: 5}, {Usage: 300 * mib, Request: 100 * mib, Priority: 1000}},
			[]change{{why.Request, 100 * mib, 500 * mib}, {why.Usage, 500 * mib, 100 * mib}, {why.Priority, 5, 1001}}},
		{"protected pods do not count", signals.MemoryAvailable, []key{{Usage: gib, Protection: signals.Static}, {Usage: 500 * mib}, {Usage: 400 * mib, Protection: signals.Critical}, {Usage: 300 * mib}},
			[]change{{why.Request, 0, 201 * mib}, {why.Usage, 500 * mib, 299 * mib}, {why.Priority, 0, 1}}},
		{"no other pod", signals.MemoryAvailable, []key{{Usage: 500 * mib}, {Usage: 400 * mib, Protection: signals.Static}}, nil},
		{"the next asked to go last", signals.MemoryAvailable, []key{{Usage: 1 * mib, Request: 100 * mib, Priority: 9}, {Usage: 300 * mib, Last: true}}, nil},
		{"no request fits the node", signals.MemoryAvailable, []key{{Usage: 7 * gib, Request: gib}, {Usage: gib, Request: 5 * gib}}, nil},
		{"a disk", signals.NodefsAvailable, []key{{Usage: 2 * gib, Request: gib}, {Usage: gib, Request: 0}},
			[]change{{why.Request, gib, gib + 1*mib}, {why.Usage, 2 * gib, 2*gib - 1*mib}, {why.Priority, 0, 1}}},
		{"files that are never counted", signals.NodefsAvailable, []key{{Usage: 50 * mib, Hidden: true, Incomplete: "too deep"}, {Usage: 40 * mib, Priority: 3}},
			[]change{{why.Priority, 0, 4}}},
		{"inodes have no requests", signals.NodefsInodesFree, []key{{Usage: 5000}, {Usage: 300}},
			[]change{{why.Usage, 5000, 299}, {why.Priority, 0, 1}}},
		{"processes", signals.PIDAvailable, []key{{Usage: 900, Tasks: 5000}, {Usage: 30, Priority: 0}},
			[]change{{why.Usage, 900, 29}, {why.Priority, 0, 1}}},
		{"processes of a lower priority", signals.PIDAvailable, []key{{Usage: 9, Priority: -10}, {Usage: 30, Priority: 0}},
			[]change{{why.Priority, -10, 0}}},
		{"nothing was measured", signals.MemoryAvailable, []key{{NoStats: true}, {NoStats: true, Priority: 7}}, []change{{why.Priority, 0, 8}}},
		{"nothing was measured of it alone", signals.MemoryAvailable, []key{{NoStats: true}, {Usage: gib}}, nil},
	} {
		var got []change
		for _, c := range why.Changes(record(test.signal, test.keys...)) {
			got = append(got, change{c.What, c.From, c.To})
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.about, got, test.want)
		}
	}
	r := record(signals.MemoryAvailable, ranking.Key{Usage: 401 * mib, Request: mib, Priority: 9}, ranking.Key{Usage: 300 * mib, Request: 300 * mib})
	for capacity, fits := range map[int64]bool{402 * mib: true, 401 * mib: true, 401*mib - 1: false} {
		r.Capacity = &capacity
		changes := why.Changes(r)
		if has := len(changes) > 0 && changes[0].What == why.Request; has != fits {
			t.Errorf("capacity %d: %v, want a request %t", capacity, changes, fits)
		}
	}
	if changes := why.Changes(&decisionlog.Record{Pod: "ns/a"}); changes != nil {
		t.Errorf("without a choice: %v", changes)
	}
}

// randomKeys draws from few values, so that ties occur for every key.
func randomKeys(r *rand.Rand, n int) (keys []ranking.Key) {
	for range n {
		k := ranking.Key{NoStats: r.IntN(6) == 0, Last: r.IntN(6) == 0, Priority: int32(r.IntN(3) - 1), EvictionPriority: int16(r.IntN(2)),
			Protection: [...]signals.Protection{signals.Unprotected, signals.Unprotected, signals.Unprotected, signals.Static}[r.IntN(4)]}
		if !k.NoStats {
			k.Usage, k.Request = signals.Amount(r.Int64N(8)), signals.Amount(r.Int64N(8))
			k.Hidden = r.IntN(8) == 0
			if k.Hidden || r.IntN(4) == 0 {
				k.Incomplete = "in part"
			}
		}
		keys = append(keys, k)
	}
	return keys
}

// rank returns the ranking of a record by the ranking's own order, with another key of the victim.
func rank(r *decisionlog.Record, victim ranking.Key) []ranking.Ranked {
	var all []ranking.Ranked
	for i := range r.Choice.Places {
		p := &r.Choice.Places[i]
		one := ranking.Ranked{Candidate: signals.Candidate{Pod: &signals.Pod{UID: p.UID, Name: p.Pod}}, Key: p.Key}
		if p.UID == r.UID {
			one.Key = victim
		}
		if p.Passed == "" {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b ranking.Ranked) int {
		if ranking.Before(&a, &b) {
			return -1
		}
		return 1
	})
	return all
}

// For any ranking: with a change another pod is evicted first, with a smaller one the pod itself. Where no
// change is found, none of that figure saves it.
func TestChanges_HoldInRanking(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	found := map[why.Figure]int{}
	for i := range 20_000 {
		s := [...]signals.Signal{signals.MemoryAvailable, signals.NodefsAvailable, signals.NodefsInodesFree, signals.PIDAvailable}[i%4]
		keys := randomKeys(r, 2+r.IntN(5))
		if s == signals.NodefsInodesFree || s == signals.PIDAvailable {
			for i := range keys {
				keys[i].Request = 0
			}
		}
		e := record(s, keys...)
		if e.Pod == "" {
			continue
		}
		place := func(uid string) *decisionlog.Place {
			i := slices.IndexFunc(e.Choice.Places, func(p decisionlog.Place) bool { return p.UID == uid })
			return &e.Choice.Places[i]
		}
		first := rank(e, place(e.UID).Key)
		e.UID, e.Pod = first[0].Pod.UID, first[0].Pod.Name
		slices.SortStableFunc(e.Choice.Places, func(a, b decisionlog.Place) int { return indexOf(first, a.UID) - indexOf(first, b.UID) })
		k := place(e.UID).Key
		with := func(what why.Figure, n int64) bool {
			usage, request, priority := k.Usage, k.Request, k.Priority
			switch what {
			case why.Request:
				request = signals.Amount(n)
			case why.Usage:
				usage = signals.Amount(n)
			case why.Priority:
				priority = int32(n)
			}
			return rank(e, k.With(usage, request, priority))[0].Pod.UID != e.UID
		}
		changes := why.Changes(e)
		for _, c := range changes {
			found[c.What]++
			back := int64(-1)
			if c.What == why.Usage {
				back = 1
			}
			if c.To == c.From || !with(c.What, c.To) || with(c.What, c.To+back) {
				t.Fatalf("seed %d, case %d, %s: %+v of %+v does not save it, or a smaller change does", seed, i, s, c, e.Choice.Places)
			}
		}
		for what, extreme := range map[why.Figure]int64{why.Request: 8 * gib, why.Usage: 0, why.Priority: 1_000_000_000} {
			has := slices.ContainsFunc(changes, func(c why.Change) bool { return c.What == what })
			possible := !k.NoStats || what == why.Priority
			if what == why.Request && (s == signals.NodefsInodesFree || s == signals.PIDAvailable) {
				possible = false
			}
			if !has && possible && with(what, extreme) {
				t.Fatalf("seed %d, case %d, %s: no %s is found for %+v", seed, i, s, what, e.Choice.Places)
			}
		}
	}
	if found[why.Request] < 500 || found[why.Usage] < 500 || found[why.Priority] < 500 {
		t.Errorf("seed %d: changes %v, want 500 of each", seed, found)
	}
}

// indexOf returns the place of a pod in a ranking; pods that are passed over come last.
func indexOf(all []ranking.Ranked, uid string) int {
	if i := slices.IndexFunc(all, func(r ranking.Ranked) bool { return r.Pod.UID == uid }); i >= 0 {
		return i
	}
	return len(all)
}
