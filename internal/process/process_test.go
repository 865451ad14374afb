package process

import "testing"

func TestMemoryLimitFor_LeavesRoomForTheProgram(t *testing.T) {
	for _, c := range []struct{ limit, least, most uint64 }{
		{256 << 20, 170 << 20, 180 << 20},
		{512 << 20, 370 << 20, 512<<20 - programText},
		{40 << 20, 20 << 20, 20 << 20},
		{1 << 63, 1 << 60, 1 << 63},
	} {
		if got := uint64(memoryLimitFor(c.limit)); got < c.least || got > c.most {
			t.Errorf("%d MiB: %d MiB, want %d to %d", c.limit>>20, got>>20, c.least>>20, c.most>>20)
		}
	}
}
