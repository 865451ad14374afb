package bulk

import "runtime"

// Live returns the reachable bytes of the heap. A sync.Pool keeps what it holds for one collection,
// so there are two.
func Live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
