package gauge

import (
	"os"
	"path/filepath"
	"testing"
)

func TestValue_FindsKeys(t *testing.T) {
	const text = "oom 3\noom_kill_disable 0\nunder_oom 1\noom_kill 27\nMemAvailable:   2048 kB\nlast 9"
	for key, want := range map[string]int64{"oom": 3, "oom_kill": 27, "oom_kill_disable": 0, "MemAvailable:": 2048, "last": 9} {
		if got, found := Value([]byte(text), key); !found || got != want {
			t.Errorf("%s: got %d, %v, want %d", key, got, found, want)
		}
	}
	for _, key := range []string{"", "oo", "oom_", "kill", "kB"} {
		if got, found := Value([]byte(text), key); found {
			t.Errorf("%q: got %d, want none", key, got)
		}
	}
	if _, found := Value([]byte("key x\n"), "key"); found {
		t.Error("found a number that is none")
	}
}

func TestGauge_ReadsUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "usage")
	if err := os.WriteFile(file, []byte("300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := Gauge{Usage: file, Total: 1000}
	if free, err := g.Now(); err != nil || free != 700 {
		t.Errorf("got %d, %v, want 700", free, err)
	}
	f, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buffer := make([]byte, 4096)
	if err := os.WriteFile(file, []byte("1200\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if free, err := g.Read(f, buffer); err != nil || free != -200 {
		t.Errorf("a usage above the total: got %d, %v, want -200", free, err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if free, err := g.Read(f, buffer); err == nil {
		t.Errorf("no number: got %d, want an error", free)
	}
}

func TestGauge_ReadsMachine(t *testing.T) {
	total, err := Memory()
	if err != nil {
		t.Fatal(err)
	}
	if free, err := (Gauge{Total: total}).Now(); err != nil || free <= 0 || free > total {
		t.Errorf("got %d, %v, of %d", free, err, total)
	}
}
