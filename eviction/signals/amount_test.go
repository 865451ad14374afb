package signals_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// random returns numbers of all magnitudes, including round ones, on which suffixes depend.
func random(r *rand.Rand) int64 {
	n := r.Int64() >> r.IntN(63)
	switch r.IntN(4) {
	case 0:
		n <<= 10 * r.IntN(6)
	case 1:
		for range r.IntN(6) {
			n *= 1000
		}
	}
	if r.IntN(8) == 0 {
		n = -n
	}
	return n
}

func TestFormat_MatchesKubernetes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	values := []int64{0, 1, -1, 999, 1000, 1023, 1024, 1025, 1 << 60, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, 100 << 20, 1536 << 20}
	for range 20_000 {
		values = append(values, random(r))
	}
	for _, v := range values {
		if got, want := signals.Format(signals.Amount(v), signals.UnitBytes), resource.NewQuantity(v, resource.BinarySI).String(); got != want {
			t.Errorf("seed %d: %d bytes: %q, Kubernetes prints %q", seed, v, got, want)
		}
		want := resource.NewQuantity(v, resource.DecimalSI).String()
		for _, u := range []signals.Unit{signals.UnitInodes, signals.UnitPIDs} {
			if got := signals.Format(signals.Amount(v), u); got != want {
				t.Errorf("seed %d: %d without unit: %q, Kubernetes prints %q", seed, v, got, want)
			}
		}
	}
}

func TestQuantity_PrintsTextAsWritten(t *testing.T) {
	if got := (signals.Quantity{Value: 1e9, Text: "1G"}).String(); got != "1G" {
		t.Errorf("quantity with the text 1G prints %s", got)
	}
	if got := (signals.Quantity{Value: 1 << 30}).String(); got != "1Gi" {
		t.Errorf("quantity without a text prints %s, want 1Gi", got)
	}
}

func TestAmount_PlusSaturates(t *testing.T) {
	for _, tc := range []struct{ a, b, want signals.Amount }{
		{1, 2, 3}, {-5, 3, -2}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64}, {1, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64 - 1, 1, math.MaxInt64},
	} {
		if got := tc.a.Plus(tc.b); got != tc.want {
			t.Errorf("%d + %d = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

// exactWithin is available / (by / over) <= reserve with integers of any size.
func exactWithin(f signals.Rate, available signals.Amount, reserve time.Duration) bool {
	if f.By <= 0 || f.Over <= 0 {
		return false
	}
	left := new(big.Int).Mul(big.NewInt(int64(max(available, 0))), big.NewInt(int64(f.Over)))
	right := new(big.Int).Mul(big.NewInt(int64(max(reserve, 0))), big.NewInt(int64(f.By)))
	return available <= 0 || left.Cmp(right) <= 0
}

func TestRate_WithinAndTimeToExhaustionAreExact(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		f := signals.Rate{By: signals.Amount(random(r)), Over: time.Duration(random(r))}
		available, reserve := signals.Amount(random(r)), time.Duration(random(r))
		if r.IntN(2) == 0 && f.By > 0 && f.Over > 0 && f.By < 1<<31 && reserve >= 0 && reserve < 1<<31 {
			// At the boundary: available × over is within one step of reserve × by.
			available = signals.Amount(int64(reserve)*int64(f.By)/int64(f.Over) + r.Int64N(3) - 1)
		}
		if got, want := f.Within(available, reserve), exactWithin(f, available, reserve); got != want {
			t.Fatalf("seed %d: %+v.Within(%d, %d) = %v, want %v", seed, f, available, reserve, got, want)
		}
		checkTimeToExhaustion(t, f, available)
	}
}

func checkTimeToExhaustion(t *testing.T, f signals.Rate, available signals.Amount) {
	t.Helper()
	got, falling := f.TimeToExhaustion(available)
	if falling != (f.By > 0 && f.Over > 0) {
		t.Fatalf("%+v.TimeToExhaustion: falling %v", f, falling)
	}
	if !falling {
		return
	}
	want := new(big.Int).Mul(big.NewInt(int64(max(available, 0))), big.NewInt(int64(f.Over)))
	want.Div(want, big.NewInt(int64(f.By)))
	if maxInt := big.NewInt(math.MaxInt64); want.Cmp(maxInt) > 0 {
		want = maxInt
	}
	if int64(got) != want.Int64() {
		t.Fatalf("%+v.TimeToExhaustion(%d) = %d, want %d", f, available, got, want)
	}
}

func TestRate_PerSecond(t *testing.T) {
	if got := (signals.Rate{By: 100, Over: 500 * time.Millisecond}).PerSecond(); got != 200 {
		t.Errorf("rate of 100 in 500 ms is %v per second, want 200", got)
	}
	if got := (signals.Rate{By: 100}).PerSecond(); got != 0 {
		t.Errorf("rate over no time is %v, want 0", got)
	}
}

func TestReadable_RoundsDown(t *testing.T) {
	for want, got := range map[string]string{
		"0":            signals.Readable(0, signals.UnitBytes),
		"10Ki":         signals.Readable(11<<10-1, signals.UnitBytes),
		"10239Ki":      signals.Readable(10<<20-1, signals.UnitBytes),
		"10Mi":         signals.Readable(11<<20-1, signals.UnitBytes),
		"3Gi":          signals.Readable(3<<30+5, signals.UnitBytes),
		"12500 inodes": signals.Readable(12500, signals.UnitInodes),
		"5k processes": signals.Readable(5000, signals.UnitPIDs),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
