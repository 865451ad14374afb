package process

import "testing"

func TestMemoryLimitFor_ReservesProgramText(t *testing.T) {
	for _, c := range []struct{ limit, min, max uint64 }{
		{256 << 20, 170 << 20, 180 << 20},
		{512 << 20, 370 << 20, 512<<20 - programText},
		{40 << 20, 20 << 20, 20 << 20},
		{1 << 63, 1 << 60, 1 << 63},
	} {
		if got := uint64(memoryLimitFor(c.limit)); got < c.min || got > c.max {
			t.Errorf("%d MiB: %d MiB, want %d to %d", c.limit>>20, got>>20, c.min>>20, c.max>>20)
		}
	}
}
