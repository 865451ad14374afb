package gc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// The reference models implement the rules literally: each compares one object with every other,
// and searches the next one to remove among all that remain.

// inOrder repeatedly takes the first one out of the rest.
func inOrder[T any](things []T, goesBefore func(a, b T) bool) (out []T) {
	rest := slices.Clone(things)
	for len(rest) > 0 {
		first := 0
		for i := range rest {
			if goesBefore(rest[i], rest[first]) {
				first = i
			}
		}
		out = append(out, rest[first])
		rest = slices.Delete(rest, first, first+1)
	}
	return out
}

func older(a, b cri.Container) bool {
	if !a.Created.Equal(b.Created) {
		return a.Created.Before(b.Created)
	}
	if a.Attempt != b.Attempt {
		return a.Attempt < b.Attempt
	}
	return a.ID < b.ID
}

// newerSiblings counts the newer instances of k among the containers.
func newerSiblings(k cri.Container, among []cri.Container) (n int) {
	for _, other := range among {
		if other.PodUID == k.PodUID && other.Name == k.Name && older(k, other) {
			n++
		}
	}
	return n
}

func without(all, some []cri.Container) (rest []cri.Container) {
	for _, k := range all {
		if !slices.ContainsFunc(some, func(s cri.Container) bool { return s.ID == k.ID }) {
			rest = append(rest, k)
		}
	}
	return rest
}

// above returns those with at least that many newer siblings.
func above(all []cri.Container, limit int) (out []cri.Container) {
	for _, k := range all {
		if newerSiblings(k, all) >= limit {
			out = append(out, k)
		}
	}
	return out
}

func referenceContainers(all []cri.Container, state func(string) PodState, o *Options, pressed bool) (out []cri.Container) {
	var gone, stay []cri.Container
	for _, k := range all {
		s := state(k.PodUID)
		if k.PodUID == "" || k.State == cri.Running || start.Sub(k.Created) < o.MinimumContainerTTL {
			continue
		}
		if k.State == cri.Created && s == Active && start.Sub(k.Created) < time.Minute {
			continue
		}
		if s == Unknown || s == Evicted || s == Ended && pressed {
			gone = append(gone, k)
		} else if !k.Created.IsZero() {
			stay = append(stay, k)
		}
	}
	out = inOrder(gone, older)
	if o.MaximumDeadPerContainer >= 0 {
		surplus := above(stay, o.MaximumDeadPerContainer)
		stay = without(stay, surplus)
		out = append(out, inOrder(surplus, older)...)
	}
	if o.MaximumDead < 0 || len(stay) <= o.MaximumDead {
		return out
	}
	origins := map[string]bool{}
	for _, k := range stay {
		origins[k.PodUID+"/"+k.Name] = true
	}
	surplus := above(stay, max(1, o.MaximumDead/len(origins)))
	stay = inOrder(without(stay, surplus), older)
	for len(stay) > o.MaximumDead {
		surplus, stay = append(surplus, stay[0]), stay[1:]
	}
	return append(out, inOrder(surplus, older)...)
}

// randomContainers draws from few values, so that ties occur.
func randomContainers(r *rand.Rand) []cri.Container {
	all := make([]cri.Container, r.IntN(14))
	for i := range all {
		all[i] = cri.Container{
			ID: fmt.Sprintf("%03d-%d", r.IntN(999), i), PodUID: []string{"", "p", "q", "gone", "ended", "evicted"}[r.IntN(6)], Name: []string{"a", "b"}[r.IntN(2)],
			State: cri.State(r.IntN(4)), Attempt: uint32(r.IntN(2)), Created: start.Add(-time.Duration(r.IntN(5)) * 30 * time.Second),
		}
		if r.IntN(10) == 0 {
			all[i].Created = time.Time{}
		}
	}
	return all
}

var referencePods = known{"p": Active, "q": Active, "ended": Ended, "evicted": Evicted}

func randomOptions(r *rand.Rand) *Options {
	return &Options{
		MaximumDeadPerContainer: r.IntN(4) - 1, MaximumDead: r.IntN(7) - 1,
		MinimumContainerTTL: time.Duration(r.IntN(3)) * 30 * time.Second, MinimumImageTTL: time.Duration(r.IntN(3)) * time.Minute,
	}
}

func TestDeadContainers_MatchesReference(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, i))
		all, o, pressed := randomContainers(r), randomOptions(r), r.IntN(2) == 0
		before := slices.Clone(all)
		got := deadContainers(all, referencePods.of, o, start, pressed)
		want := referenceContainers(all, referencePods.of, o, pressed)
		if !slices.Equal(ids(got, containerID), ids(want, containerID)) {
			t.Fatalf("seed %d, case %d: %+v pressed %v:\n%v\nremoves %v,\nwant %v", seed, i, *o, pressed, all, ids(got, containerID), ids(want, containerID))
		}
		if !slices.Equal(ids(all, containerID), ids(before, containerID)) {
			t.Fatalf("seed %d, case %d: deadContainers sorted the caller's list", seed, i)
		}
	}
}

func TestDeadContainers_IgnoresListingOrder(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, i))
		all, o := randomContainers(r), randomOptions(r)
		want := ids(deadContainers(all, referencePods.of, o, start, true), containerID)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got := ids(deadContainers(all, referencePods.of, o, start, true), containerID); !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: removes %v, after a shuffle %v", seed, i, want, got)
		}
	}
}

// A second round after the first removes nothing.
func TestDeadContainers_IsIdempotent(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, i))
		all, o := randomContainers(r), randomOptions(r)
		left := without(all, deadContainers(all, referencePods.of, o, start, false))
		if again := deadContainers(left, referencePods.of, o, start, false); len(again) > 0 {
			t.Fatalf("seed %d, case %d: a second round removes %v, want none", seed, i, ids(again, containerID))
		}
	}
}

func referenceSandboxes(all []cri.Sandbox, containers []cri.Container, pressed bool) []cri.Sandbox {
	earlier := func(a, b cri.Sandbox) bool {
		if !a.Created.Equal(b.Created) {
			return a.Created.Before(b.Created)
		}
		if a.Attempt != b.Attempt {
			return a.Attempt < b.Attempt
		}
		return a.ID < b.ID
	}
	var dead []cri.Sandbox
	for _, s := range all {
		inhabited, newer := false, false
		for _, k := range containers {
			inhabited = inhabited || k.SandboxID == s.ID
		}
		for _, other := range all {
			newer = newer || other.UID == s.UID && earlier(s, other)
		}
		state := referencePods[s.UID]
		all := state == Unknown || state == Evicted || state == Ended && pressed
		if s.UID != "" && !s.Ready && !inhabited && (all || newer && !s.Created.IsZero()) {
			dead = append(dead, s)
		}
	}
	return inOrder(dead, earlier)
}

func TestDeadSandboxes_MatchesReference(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, i))
		all := make([]cri.Sandbox, r.IntN(9))
		var containers []cri.Container
		for j := range all {
			all[j] = cri.Sandbox{ID: fmt.Sprintf("%03d-%d", r.IntN(999), j), UID: []string{"", "p", "gone", "ended", "evicted"}[r.IntN(5)],
				Ready: r.IntN(3) == 0, Attempt: uint32(r.IntN(2)), Created: start.Add(-time.Duration(r.IntN(3)) * time.Minute)}
			if r.IntN(10) == 0 {
				all[j].Created = time.Time{}
			}
			if r.IntN(4) == 0 {
				containers = append(containers, cri.Container{SandboxID: all[j].ID})
			}
		}
		pressed, id := r.IntN(2) == 0, func(s cri.Sandbox) string { return s.ID }
		got, want := ids(deadSandboxes(all, containers, referencePods.of, pressed), id), ids(referenceSandboxes(all, containers, pressed), id)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: %v with %v: removes %v, want %v", seed, i, all, containers, got, want)
		}
	}
}

func TestUnusedImages_MatchesReference(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, i))
		images, used, seen := make([]cri.Image, r.IntN(10)), names{}, sightings{}
		for j := range images {
			id := fmt.Sprintf("%03d-%d", r.IntN(999), j)
			images[j] = cri.Image{ID: id, Tags: []string{"t" + id}, Digests: []string{"d" + id}, Size: r.Int64N(3), Pinned: r.IntN(6) == 0}
			if r.IntN(5) == 0 {
				used.add([]string{"", "t", "d"}[r.IntN(3)] + id)
			}
			if r.IntN(8) > 0 {
				seen[id] = before(time.Duration(r.IntN(4))*time.Minute, time.Duration(r.IntN(4)-1)*time.Minute)
			}
		}
		ttl := randomOptions(r).MinimumImageTTL
		var may []cri.Image
		for _, img := range images {
			s, known := seen[img.ID]
			inUse := used[img.ID] || used[img.Tags[0]] || used[img.Digests[0]]
			if known && !inUse && !img.Pinned && !s.first.Add(ttl).After(start) {
				may = append(may, img)
			}
		}
		want := ids(inOrder(may, func(a, b cri.Image) bool {
			x, y := seen[a.ID], seen[b.ID]
			switch {
			case !x.used.Equal(y.used):
				return x.used.IsZero() || !y.used.IsZero() && x.used.Before(y.used)
			case !x.first.Equal(y.first):
				return x.first.Before(y.first)
			case a.Size != b.Size:
				return a.Size > b.Size
			}
			return a.ID < b.ID
		}), imageID)
		if got := ids(unusedImages(images, used, seen, ttl, start), imageID); !slices.Equal(got, want) {
			t.Fatalf("seed %d, case %d: removes %v, want %v", seed, i, got, want)
		}
	}
}
