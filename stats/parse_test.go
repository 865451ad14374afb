package stats

import (
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
)

func TestParseMemTotal_AcceptsOnlyKiB(t *testing.T) {
	text := []byte("MemTotal:       24684084 kB\nMemFree:        24040828 kB\nSwapTotal:             0 kB\n")
	if v, err := ParseMemTotal(text); err != nil || v != 24684084<<10 {
		t.Errorf("MemTotal = %d, %v", v, err)
	}
	for _, text := range []string{
		"", "MemFree: 1 kB\n", "MemTotal:\n", "MemTotal: 5\n", "MemTotal: 5 MB\n", "MemTotal: -5 kB\n",
		"MemTotal: 18446744073709551615 kB\n", "MemTotal: 9007199254740992 kB\n",
	} {
		if v, err := ParseMemTotal([]byte(text)); err == nil {
			t.Errorf("ParseMemTotal(%q) = %d, want an error", text, v)
		}
	}
}

func TestParseTasks_ParsesLoadavg(t *testing.T) {
	if v, err := ParseTasks([]byte("0.89 0.29 0.10 2/83 6967\n")); err != nil || v != 83 {
		t.Errorf("ParseTasks = %d, %v, want 83", v, err)
	}
	for _, text := range []string{"", "0.89 0.29 0.10\n", "0.89 0.29 0.10 83 6967\n", "0.89 0.29 0.10 2/ 1\n", "a b c 1/-2 3"} {
		if v, err := ParseTasks([]byte(text)); err == nil {
			t.Errorf("ParseTasks(%q) = %d, want an error", text, v)
		}
	}
}

func FuzzParseMemTotal(f *testing.F) {
	for _, s := range []string{"MemTotal:       24684084 kB\n", "MemTotal: kB\n", "MemTotal:99999999999999999999 kB", "SwapTotal: 0 kB\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseMemTotal(text)
		if v < 0 || v%1024 != 0 || v != 0 && err != nil {
			t.Fatalf("ParseMemTotal(%q) = %d, %v", text, v, err)
		}
	})
}

func FuzzParseTasks(f *testing.F) {
	for _, s := range []string{"0.89 0.29 0.10 2/83 6967\n", "1/1/1 2/2 3/3 4/4/4", "   /7"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseTasks(text)
		if v < 0 || v > signals.PIDs(1<<62) || v != 0 && err != nil {
			t.Fatalf("ParseTasks(%q) = %d, %v", text, v, err)
		}
	})
}
