package ranking

import (
	"cmp"
	"math"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Relief is the amount that the end of a pod frees.
type Relief struct {
	Amount signals.Amount
	Open   string // why it may be any amount: a part of it was not measured. Empty if all was
	Known  bool   // any part of it was measured
}

// Covers reports whether the end of the pod frees at least the given amount. A pod that was measured
// incompletely may hold any amount, as in its place of the ranking.
func (r Relief) Covers(least signals.Amount) bool { return r.Open != "" || r.Amount >= least }

// ReliefOf returns the relief of a pod for pressure on a signal; see [Rank].
func ReliefOf(c signals.Candidate, s signals.Signal, measure signals.Storage) Relief {
	k := keyOf(c, For(s), measure)
	return reliefOf(&c, &k, measure)
}

// reliefOf returns what the end of the pod frees. That is the ranked usage where nothing else was
// measured, as in a scenario. Otherwise it is the memory without page cache, the tasks that PIDs
// count, and the disk usage that is not ranked by but deleted with the pod.
func reliefOf(c *signals.Candidate, k *Key, measure signals.Storage) Relief {
	u := c.Usage
	if u == nil {
		return Relief{}
	}
	r := Relief{Amount: k.Usage, Open: k.Incomplete, Known: true}
	switch k.Order {
	case ByMemory:
		if r.Known = u.Memory.Known || u.MemoryRelief.Known; u.MemoryRelief.Known {
			r.Amount = signals.Amount(u.MemoryRelief.Value)
		}
	case ByPIDs:
		r.Known = u.Processes.Known || u.Tasks.Known
		r.Amount = max(k.Usage, k.Tasks)
	default:
		if measure.Has(signals.Rootfs) {
			r.add(&u.OtherLayers, k.Order)
		}
		if measure.Has(signals.LocalVolumes) {
			r.add(&u.KubeletFiles, k.Order)
		}
	}
	return r
}

func (r *Relief) add(u *signals.FilesystemUsage, order Order) {
	amount := signals.Amount(u.Bytes.Value)
	if order == ByInodes {
		amount = signals.Amount(u.Inodes.Value)
	}
	r.Amount = r.Amount.Plus(amount)
	r.Open = cmp.Or(r.Open, u.Incomplete)
}

// TotalRelief returns the amount that the end of all unprotected pods frees. It is the maximum if
// one of them was measured incompletely. It does not allocate.
func TotalRelief(ranked []Ranked) (together signals.Amount) {
	for i := range ranked {
		switch r := &ranked[i]; {
		case r.Key.Protection != signals.Unprotected:
		case r.Relief.Open != "":
			return math.MaxInt64
		default:
			together = together.Plus(r.Relief.Amount)
		}
	}
	return together
}

// Reasons for which the end of a pod frees too little.
const (
	TooSmall    = "too small to help"
	behindCache = "frees less than the page cache of a pod before it"
)

// TooLittle returns why the end of the pod frees too little, if least is to be freed. It returns an empty string if it frees enough.
func (r *Ranked) TooLittle(least signals.Amount) string {
	switch {
	case !r.Relief.Covers(least):
		return TooSmall
	case !r.Relief.Covers(r.Behind):
		return behindCache
	}
	return ""
}

// BehindCache finds the first unprotected pod with page cache that is the whole shortage, while its end frees less than least.
// It marks the pods behind it, and returns that pod and the amount of its cache: a pod that frees less is not the cause. Of all
// page cache, at most inUse is in active use. It returns nil if there is no such pod, or none behind it. It does not allocate.
func BehindCache(ranked []Ranked, shortage, least, inUse signals.Amount) (of *signals.Pod, amount signals.Amount) {
	for i := range len(ranked) - 1 {
		r := &ranked[i]
		// What the end does not free contains reclaimable slab, and the usage may be older than the relief.
		amount := min(r.Key.Usage-r.Relief.Amount, inUse)
		if amount <= 0 || amount < shortage || r.Key.Order != ByMemory || r.Key.Protection != signals.Unprotected || r.Relief.Covers(least) {
			continue
		}
		behind := ranked[i+1:]
		for j := range behind {
			behind[j].Behind = amount
		}
		return r.Pod, amount
	}
	return nil, 0
}
