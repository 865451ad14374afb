package process

import (
	"bytes"
	"strings"
	"testing"
)

func TestNewLogger_LevelChanges(t *testing.T) {
	var out bytes.Buffer
	level := &Level{}
	log := NewLogger("text", level, &out)
	for verbosity, word := range []string{"quiet", "louder", "loud"} {
		level.Set(int64(verbosity))
		log.Log(t.Context(), -2, word)
	}
	if got := out.String(); strings.Contains(got, "quiet") || strings.Contains(got, "louder") || !strings.Contains(got, "loud") {
		t.Errorf("logged\n%s", got)
	}
}

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
