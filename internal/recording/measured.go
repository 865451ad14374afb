package recording

import "plimsoll.dev/plimsoll/eviction/signals"

// Measured returns a value of a usage, unknown for [Unknown].
func Measured[T signals.Bytes | signals.PIDs](v int64) signals.Measured[T] {
	if v == Unknown {
		return signals.Measured[T]{}
	}
	return signals.Of(T(max(v, 0)))
}

// MemoryRelief returns the memory of a pod without page cache. Reclaimable slab is part of it here.
func MemoryRelief(v *[ValueCount]int64) signals.Measured[signals.Bytes] {
	relief := Measured[signals.Bytes](v[Anon])
	for _, more := range []int64{v[Shmem], v[Kernel]} {
		if relief.Known && more > 0 {
			relief.Value = signals.Bytes(signals.Amount(relief.Value).Plus(signals.Amount(more)))
		}
	}
	return relief
}
