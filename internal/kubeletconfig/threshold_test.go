package kubeletconfig_test

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// lines parses thresholds such as memory.available<100Mi.
func lines(t *testing.T, texts ...string) []kubeletconfig.Threshold {
	t.Helper()
	var all []kubeletconfig.Threshold
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "<")
		s, err := signals.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		line, err := kubeletconfig.ParseThreshold(s, value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

func TestThreshold_Compare(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		a, b       string
		capacity   signals.Amount
		order      int
		comparable bool
	}{
		{"memory.available<100Mi", "memory.available<50Mi", 0, 1, true},
		{"memory.available<0.1Gi", "memory.available<100Mi", 0, 1, true},
		{"memory.available<100Mi", "memory.available<102400Ki", 0, 0, true},
		{"memory.available<5%", "memory.available<10%", 0, -1, true},
		{"memory.available<10%", "memory.available<100Mi", 0, 0, false},
		{"memory.available<10%", "memory.available<100Mi", gib, 1, true},
		{"memory.available<100Mi", "memory.available<10%", 10 * gib, -1, true},
	} {
		both := lines(t, test.a, test.b)
		if order, comparable := both[0].Compare(both[1], test.capacity); order != test.order || comparable != test.comparable {
			t.Errorf("Compare(%s, %s) of %d: got %d, %v", test.a, test.b, test.capacity, order, comparable)
		}
		if order, _ := both[1].Compare(both[0], test.capacity); order != -test.order {
			t.Errorf("Compare(%s, %s) of %d: got %d", test.b, test.a, test.capacity, order)
		}
	}
}

// Percentages have the precision of the kubelet: 10 % is a little more than a tenth.
func TestThreshold_OfRoundsLikeKubelet(t *testing.T) {
	for text, want := range map[string]signals.Amount{"10%": 10000000149, "5%": 5000000074, "0.1%": 100000004, "50%": 50000000000} {
		if got := lines(t, "nodefs.available<"+text)[0].Of(100_000_000_000); got != want {
			t.Errorf("%s of 1e11 is %d, want %d", text, got, want)
		}
	}
}
