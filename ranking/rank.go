package ranking

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Order selects the keys of a ranking.
type Order uint8

// The orders, one for each exhaustible resource.
const (
	// ByMemory orders by: above its request first, lower priority, more above the request.
	ByMemory Order = iota
	// ByDisk orders like ByMemory, for ephemeral storage.
	ByDisk
	// ByInodes orders by: uses any first, lower priority, more inodes. Pods can not request
	// inodes, so nothing is subtracted.
	ByInodes
	// ByPIDs orders by: lower priority, more processes.
	ByPIDs
)

// For returns the order for pressure on the signal.
func For(s signals.Signal) Order {
	switch s.Definition().Resource {
	case signals.EphemeralStorage:
		return ByDisk
	case signals.InodeCount:
		return ByInodes
	case signals.PIDCount:
		return ByPIDs
	}
	return ByMemory
}

// Ranked is a pod with its key. Its place does not depend on the other fields.
type Ranked struct {
	signals.Candidate
	Key    Key
	Relief Relief
	// Growth is the increase of the relief since an earlier measurement, which the caller sets.
	Growth signals.Amount
	// Behind is page cache of a pod before this one, if that is the whole shortage; see [BehindCache].
	Behind signals.Amount
}

// Key is the set of values that determine a pod's place, and so the reason for it.
type Key struct {
	Order      Order          `json:"-"`                    // by the signal
	NoStats    bool           `json:"noStats,omitempty"`    // nothing was measured: the pod goes first
	Exceeds    bool           `json:"exceeds,omitempty"`    // uses more than it requested (inodes: uses any), or hides the amount
	Hidden     bool           `json:"hidden,omitempty"`     // a part is never counted: Exceeds, whatever the request
	Incomplete string         `json:"incomplete,omitempty"` // why Usage may be higher, or empty
	Last       bool           `json:"last,omitempty"`       // asked to go after all others
	Priority   int32          `json:"priority"`
	Usage      signals.Amount `json:"usage"`
	Request    signals.Amount `json:"request"`         // 0 for inodes and PIDs
	Tasks      signals.Amount `json:"tasks,omitempty"` // ByPIDs: threads included; 0 if unknown. It does not affect the place
	// Protection does not affect the place either.
	Protection signals.Protection `json:"-"`
	// EvictionPriority decides between pods of equal Priority, lower first.
	EvictionPriority int16 `json:"evictionPriority,omitempty"`
}

// over returns the amount above the request; negative below it.
func (k *Key) over() signals.Amount { return k.Usage - k.Request }

// Rank orders the pods for pressure on a signal, the first to evict first. measure selects the
// parts of a pod's disk usage that can relieve the pressure.
func Rank(pods []signals.Candidate, s signals.Signal, measure signals.Storage) []Ranked {
	order := For(s)
	unordered, places := make([]Ranked, len(pods)), make([]int32, len(pods))
	for i, c := range pods {
		k := keyOf(c, order, measure)
		unordered[i], places[i] = Ranked{Candidate: c, Key: k, Relief: reliefOf(&c, &k, measure)}, int32(i)
	}
	// Sorting places moves 4 bytes instead of a whole pod.
	slices.SortFunc(places, func(a, b int32) int { return compare(&unordered[a], &unordered[b]) })
	ranked := make([]Ranked, len(pods))
	for i, place := range places {
		ranked[i] = unordered[place]
	}
	return ranked
}

// compare compares two pods key by key. A pod that asked to go last does. Missing stats decide
// next, except for PIDs, where priority does. If these and the priority are equal, a pod with
// an incomplete measurement goes first, because many files must not hide a large one. A key is
// compared only if all previous ones are equal: nearly always the first two decide.
func compare(a, b *Ranked) int {
	if a.Key.Last != b.Key.Last {
		return trueFirst(b.Key.Last, a.Key.Last)
	}
	if a.Key.Order == ByPIDs {
		if c := byPriority(a, b); c != 0 {
			return c
		}
	}
	if c := trueFirst(a.Key.NoStats, b.Key.NoStats); c != 0 {
		return c
	}
	if a.Key.Order != ByPIDs {
		if c := trueFirst(a.Key.Exceeds, b.Key.Exceeds); c != 0 {
			return c
		}
		if c := byPriority(a, b); c != 0 {
			return c
		}
	}
	if c := trueFirst(a.Key.Incomplete != "", b.Key.Incomplete != ""); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Key.over(), a.Key.over()); c != 0 {
		return c
	}
	return byUID(a, b)
}

// byPriority puts the lower priority first, and with equal ones the lower eviction priority.
func byPriority(a, b *Ranked) int {
	if c := cmp.Compare(a.Key.Priority, b.Key.Priority); c != 0 {
		return c
	}
	return cmp.Compare(a.Key.EvictionPriority, b.Key.EvictionPriority)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// byUID makes the order total. The name decides only between pods with the same UID, as in
// invalid input.
func byUID(a, b *Ranked) int {
	return cmp.Or(cmp.Compare(a.Pod.UID, b.Pod.UID),
		cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
}

func keyOf(c signals.Candidate, order Order, measure signals.Storage) Key {
	k := Key{Order: order, Priority: c.Pod.Priority, Protection: c.Pod.Protection, Last: c.Pod.Last, EvictionPriority: c.Pod.EvictionPriority}
	if c.Usage == nil {
		k.NoStats = true
		return k
	}
	switch order {
	case ByMemory:
		k.Usage, k.Request = signals.Amount(c.Usage.Memory.Value), c.Pod.MemoryRequest.Value
	case ByDisk:
		k.Usage, _, k.Incomplete, k.Hidden = disk(c, measure)
		k.Request = c.Pod.StorageRequest.Value
	case ByInodes:
		_, k.Usage, k.Incomplete, k.Hidden = disk(c, measure)
	case ByPIDs:
		k.Usage, k.Tasks = signals.Amount(c.Usage.Processes.Value), signals.Amount(c.Usage.Tasks.Value)
	}
	k.Exceeds = k.exceeds()
	return k
}

// exceeds reports whether a pod uses more than it requested. An uncounted part is more than nothing,
// because a directory has a size. A part that no later measurement counts is assumed to exceed any
// request. Otherwise a pod could hide files beyond a bound of the measurement.
func (k *Key) exceeds() bool {
	return k.Usage > k.Request || k.Hidden || k.Incomplete != "" && k.Request == 0
}

// With returns the key of the same pod with another usage, request and priority.
func (k Key) With(usage, request signals.Amount, priority int32) Key {
	k.Usage, k.Request, k.Priority = usage, request, priority
	k.Exceeds = !k.NoStats && k.exceeds()
	return k
}

// Before reports whether a is evicted before b.
func Before(a, b *Ranked) bool { return compare(a, b) < 0 }

// disk adds up a pod's usage in the places that count, and returns why it may be higher. The
// reason is the first that no later measurement removes (hidden), else the first.
func disk(c signals.Candidate, measure signals.Storage) (bytes, inodes signals.Amount, incomplete string, hidden bool) {
	add := func(u *signals.FilesystemUsage) {
		bytes = bytes.Plus(signals.Amount(u.Bytes.Value))
		inodes = inodes.Plus(signals.Amount(u.Inodes.Value))
		if incomplete == "" || u.Uncountable && !hidden {
			incomplete = cmp.Or(u.Incomplete, incomplete)
		}
		hidden = hidden || u.Uncountable
	}
	for i := range c.Usage.Containers {
		if measure.Has(signals.Rootfs) {
			add(&c.Usage.Containers[i].Rootfs)
		}
		if measure.Has(signals.Logs) {
			add(&c.Usage.Containers[i].Logs)
		}
	}
	if !measure.Has(signals.LocalVolumes) {
		return bytes, inodes, incomplete, hidden
	}
	for i := range c.Pod.Volumes {
		if v := &c.Pod.Volumes[i]; v.Local {
			if u := c.Usage.Volume(v.Name); u != nil {
				add(&u.FilesystemUsage)
			}
		}
	}
	return bytes, inodes, incomplete, hidden
}
