package ranking_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// The reference model implements the contract literally. It repeatedly removes the first remaining
// pod of the order, and compares every pod with every other.

// figure is the input of the rule for a resource.
type figure struct {
	seen     bool
	last     bool
	priority int64
	own      int64 // eviction priority
	used     *big.Int
	request  *big.Int
}

func read(resource string, c signals.Candidate, measure signals.Storage) figure {
	f := figure{last: c.Pod.Last, priority: int64(c.Pod.Priority), own: int64(c.Pod.EvictionPriority), used: new(big.Int), request: new(big.Int)}
	if c.Usage == nil {
		return f
	}
	f.seen = true
	add := func(n int64) { f.used.Add(f.used, big.NewInt(n)) }
	switch resource {
	case "memory":
		add(int64(c.Usage.Memory.Value))
		f.request.SetInt64(int64(c.Pod.MemoryRequest.Value))
		return f
	case "pids":
		add(int64(c.Usage.Processes.Value))
		return f
	case "ephemeral-storage":
		f.request.SetInt64(int64(c.Pod.StorageRequest.Value))
	}
	place := func(u signals.FilesystemUsage) {
		if resource == "inodes" {
			add(int64(u.Inodes.Value))
		} else {
			add(int64(u.Bytes.Value))
		}
	}
	for _, k := range c.Usage.Containers {
		if measure&signals.Rootfs != 0 {
			place(k.Rootfs)
		}
		if measure&signals.Logs != 0 {
			place(k.Logs)
		}
	}
	for _, v := range c.Usage.Volumes {
		for _, known := range c.Pod.Volumes {
			if known.Name == v.Name && known.Local && measure&signals.LocalVolumes != 0 {
				place(v.FilesystemUsage)
			}
		}
	}
	return f
}

// worse reports whether a goes before b, by the rule for the resource.
func worse(resource string, a, b signals.Candidate, measure signals.Storage) bool {
	x, y := read(resource, a, measure), read(resource, b, measure)
	if x.last != y.last {
		return y.last
	}
	if resource == "pids" {
		if x.priority != y.priority {
			return x.priority < y.priority
		}
		if x.own != y.own {
			return x.own < y.own
		}
		if x.seen != y.seen {
			return !x.seen
		}
		if c := x.used.Cmp(y.used); c != 0 {
			return c > 0
		}
		return a.Pod.UID < b.Pod.UID
	}
	if x.seen != y.seen {
		return !x.seen
	}
	if xs, ys := x.used.Cmp(x.request) > 0, y.used.Cmp(y.request) > 0; xs != ys {
		return xs
	}
	if x.priority != y.priority {
		return x.priority < y.priority
	}
	if x.own != y.own {
		return x.own < y.own
	}
	if x.seen {
		xo, yo := new(big.Int).Sub(x.used, x.request), new(big.Int).Sub(y.used, y.request)
		if c := xo.Cmp(yo); c != 0 {
			return c > 0
		}
	}
	return a.Pod.UID < b.Pod.UID
}

func referenceOrder(resource string, pods []signals.Candidate, measure signals.Storage) []string {
	rest := slices.Clone(pods)
	var names []string
	for len(rest) > 0 {
		worst := 0
		for i := range rest {
			if i != worst && worse(resource, rest[i], rest[worst], measure) {
				worst = i
			}
		}
		names = append(names, rest[worst].Pod.Name)
		rest = slices.Delete(rest, worst, worst+1)
	}
	return names
}

// randomPods draws from few values, so that ties occur for every key.
func randomPods(r *rand.Rand, n int) []signals.Candidate {
	small := func() int64 { return r.Int64N(4) }
	fs := func() signals.FilesystemUsage {
		u := signals.FilesystemUsage{}
		if r.IntN(4) > 0 {
			u.Bytes = signals.Of(signals.Bytes(small()))
		}
		if r.IntN(4) > 0 {
			u.Inodes = signals.Of(signals.Inodes(small()))
		}
		return u
	}
	pods := make([]signals.Candidate, n)
	for i := range pods {
		p := &signals.Pod{
			UID: fmt.Sprintf("%04d-%d", r.IntN(9999), i), Namespace: "ns", Name: fmt.Sprintf("pod-%d", i),
			Priority:       int32(r.IntN(3) - 1),
			MemoryRequest:  signals.Quantity{Value: signals.Amount(small() * 2)},
			StorageRequest: signals.Quantity{Value: signals.Amount(small() * 3)},
			Protection:     signals.Protection(r.IntN(6)),
			Volumes:        []signals.Volume{{Name: "a", Local: r.IntN(2) == 0}, {Name: "b", Local: true}},
		}
		if r.IntN(3) == 0 {
			p.Last, p.EvictionPriority = r.IntN(4) == 0, int16(r.IntN(3)-1)*1000
		}
		pods[i].Pod = p
		if r.IntN(6) == 0 {
			continue
		}
		u := &signals.Usage{
			Containers: []signals.ContainerUsage{{Name: "x", Rootfs: fs(), Logs: fs()}, {Name: "y", Rootfs: fs(), Logs: fs()}},
			Volumes:    []signals.VolumeUsage{{Name: "a", FilesystemUsage: fs()}, {Name: "c", FilesystemUsage: fs()}},
		}
		if r.IntN(5) > 0 {
			u.Memory = signals.Of(signals.Bytes(small() * 3))
		}
		if r.IntN(5) > 0 {
			u.Processes = signals.Of(signals.PIDs(small()))
		}
		pods[i].Usage = u
	}
	return pods
}

var orders = map[string]signals.Signal{
	"memory": signals.MemoryAvailable, "ephemeral-storage": signals.NodefsAvailable, "inodes": signals.ImagefsInodesFree, "pids": signals.PIDAvailable,
}

func TestRank_AgreesWithReference(t *testing.T) {
	for resource, s := range orders {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			for i := range uint64(10_000) {
				r := rand.New(rand.NewPCG(seed, i))
				pods := randomPods(r, r.IntN(9))
				measure := signals.Storage(r.IntN(8))
				before := slices.Clone(pods)
				got := namesOf(ranking.Rank(pods, s, measure))
				if want := referenceOrder(resource, pods, measure); !slices.Equal(got, want) {
					t.Fatalf("seed %d, case %d: ranked %v, want %v", seed, i, got, want)
				}
				if !reflect.DeepEqual(pods, before) {
					t.Fatalf("seed %d, case %d: the caller's slice was changed", seed, i)
				}
			}
		})
	}
}

// The order is total: every pair and every triple of the sorted list compares as it is placed,
// independently of the other ranked pods.
func TestRank_OrderIsTotal(t *testing.T) {
	seed := rand.Uint64()
	for resource, s := range orders {
		r := rand.New(rand.NewPCG(seed, 1))
		pods := randomPods(r, 40)
		ranked := ranking.Rank(pods, s, everywhere)
		for i := range ranked {
			for j := i + 1; j < len(ranked); j++ {
				pair := []signals.Candidate{ranked[j].Candidate, ranked[i].Candidate}
				if got := ranking.Rank(pair, s, everywhere); got[0].Pod != ranked[i].Pod {
					t.Fatalf("seed %d: %s: %s is ranked before %s, but not as a pair", seed, resource, ranked[i].Pod.Name, ranked[j].Pod.Name)
				}
			}
		}
		before := func(a, b signals.Candidate) bool {
			return ranking.Rank([]signals.Candidate{b, a}, s, everywhere)[0].Pod == a.Pod
		}
		for range 2_000 {
			a, b, c := pods[r.IntN(40)], pods[r.IntN(40)], pods[r.IntN(40)]
			if a.Pod == b.Pod || b.Pod == c.Pod || a.Pod == c.Pod {
				continue
			}
			if before(a, b) == before(b, a) {
				t.Fatalf("seed %d: %s: %s and %s do not compare", seed, resource, a.Pod.Name, b.Pod.Name)
			}
			if before(a, b) && before(b, c) && !before(a, c) {
				t.Fatalf("seed %d: %s: %s, %s, %s form a cycle", seed, resource, a.Pod.Name, b.Pod.Name, c.Pod.Name)
			}
		}
	}
}

func TestRank_IndependentOfInputOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 500 {
		pods := randomPods(r, 12)
		pods[3].Pod.UID, pods[4].Pod.UID = pods[5].Pod.UID, pods[5].Pod.UID // UIDs should be unique; invalid input may repeat them
		want := namesOf(ranking.Rank(pods, signals.MemoryAvailable, everywhere))
		r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		if got := namesOf(ranking.Rank(pods, signals.MemoryAvailable, everywhere)); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, shuffled %v", seed, want, got)
		}
	}
}

func TestKey_ReasonIsOneLine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for _, s := range orders {
		for _, p := range ranking.Rank(randomPods(r, 50), s, everywhere) {
			if text := p.Key.Reason(); text == "" || strings.ContainsAny(text, "\n{}") {
				t.Errorf("reason %q", text)
			}
		}
	}
}
