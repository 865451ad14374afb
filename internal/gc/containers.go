package gc

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// startTime is the time in which a created container of an active pod counts as about to start. A
// start takes a tenth of a second.
const startTime = time.Minute

// forfeits determines which pods lose all dead containers, normally and under pressure. For the
// other pods the limits apply.
var forfeits = [...]struct{ always, pressed bool }{
	Unknown: {true, true},
	Active:  {false, false},
	Ended:   {false, true},
	Evicted: {true, true},
}

func forfeited(s PodState, pressed bool) bool {
	return forfeits[s].always || pressed && forfeits[s].pressed
}

// origin identifies the container of a pod; dead containers are its instances.
type origin struct{ uid, name string }

// deadContainers returns the containers to remove, in this order: those of pods that forfeit
// theirs, those above the limit of their container, those above the limit of the node. Within each
// group the oldest is first.
func deadContainers(all []cri.Container, state func(uid string) PodState, o *Options, now time.Time, pressed bool) []cri.Container {
	var gone, surplus []cri.Container
	kept := map[origin][]cri.Container{}
	for _, k := range all {
		s := state(k.PodUID)
		switch from := (origin{k.PodUID, k.Name}); {
		case !collectable(&k, s, o, now):
		case forfeited(s, pressed):
			gone = append(gone, k)
		case !k.Created.IsZero(): // one of unknown age may be the newest
			kept[from] = append(kept[from], k)
		}
	}
	if o.MaximumDeadPerContainer >= 0 {
		surplus = keepNewest(kept, o.MaximumDeadPerContainer)
	}
	return slices.Concat(oldestFirst(gone), oldestFirst(surplus), oldestFirst(overLimit(kept, o.MaximumDead)))
}

// collectable reports whether a container may be removed at all. Containers without a pod belong to
// another program.
func collectable(k *cri.Container, s PodState, o *Options, now time.Time) bool {
	age := now.Sub(k.Created)
	starting := k.State == cri.Created && s == Active && age < startTime
	return k.PodUID != "" && k.State != cri.Running && age >= o.MinimumContainerTTL && !starting
}

// keepNewest retains the newest n of each origin and returns the others.
func keepNewest(kept map[origin][]cri.Container, n int) (others []cri.Container) {
	for from, instances := range kept {
		oldestFirst(instances)
		surplus := max(0, len(instances)-n)
		others = append(others, instances[:surplus]...)
		kept[from] = instances[surplus:]
	}
	return others
}

// overLimit returns the containers above the limit of the node: the share of each container is
// equal, at least its newest one, as far as the limit allows.
func overLimit(kept map[origin][]cri.Container, limit int) []cri.Container {
	total := 0
	for from, instances := range kept {
		if total += len(instances); len(instances) == 0 {
			delete(kept, from)
		}
	}
	if limit < 0 || total <= limit {
		return nil
	}
	others := keepNewest(kept, max(1, limit/len(kept)))
	var rest []cri.Container
	for _, instances := range kept {
		rest = append(rest, instances...)
	}
	surplus := max(0, len(rest)-limit)
	return append(others, oldestFirst(rest)[:surplus]...)
}

// oldestFirst sorts in place; the ID makes the order total.
func oldestFirst(containers []cri.Container) []cri.Container {
	slices.SortFunc(containers, func(a, b cri.Container) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID, b.ID))
	})
	return containers
}
