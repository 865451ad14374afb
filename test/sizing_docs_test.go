package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

// TestSizing_UsesTheConstants compares the documented figures for sizing thresholds with the
// constants of package eviction.
func TestSizing_UsesTheConstants(t *testing.T) {
	file := filepath.Join("docs", "how-to", "size-a-threshold.md")
	text, err := os.ReadFile(filepath.Join(loaded(t).root, file))
	if err != nil {
		t.Fatal(err)
	}
	check, kill := eviction.MinInterval, eviction.ReactionTime
	millis := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	figures := []string{
		"within " + millis(kill) + " of the check that decides it. Near the threshold, checks come every " + millis(check) + " while memory falls",
		"fill rate ≤ threshold / " + millis(kill+check),
		"compute rate × " + millis(kill+check),
		"r × " + millis(eviction.RateWindow+kill+2*eviction.RelaxedInterval),
		"`--early-eviction-horizon` is at least " + millis(kill+check) + ". The default is " + millis(eviction.DefaultEarlyEvictionHorizon),
	}
	for _, mebibytes := range []float64{50, 100, 250, 500} {
		rate := mebibytes / 1024 / (kill + check).Seconds()
		figures = append(figures, fmt.Sprintf("| %.0fMi | %.1f GiB/s |", mebibytes, rate))
	}
	for _, want := range figures {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: the constants of eviction/pace.go or the text changed", file, want)
		}
	}
}
