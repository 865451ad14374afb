package stats

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

func TestAwaitLayers_WaitsForNewMeasurements(t *testing.T) {
	layer := func(at time.Time) cri.ContainerStats {
		return cri.ContainerStats{WritableTime: at, WritableBytes: cri.Used{Value: 7000, Known: true}}
	}
	for name, tc := range map[string]struct {
		stats    func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error)
		wantTime time.Duration
		fails    bool
		answer   time.Duration // how long an answer takes
	}{
		"measured since": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun)}, nil
		}, 0, false, 0},
		"one layer measured every 10 s": {func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun), layer(begun.Add(-3*time.Second + passed.Truncate(10*time.Second)))}, nil
		}, 10 * time.Second, false, 0},
		"container without a report at first": {func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			if passed < 4*time.Second {
				return []cri.ContainerStats{layer(begun), {}}, nil
			}
			return []cri.ContainerStats{layer(begun), layer(begun)}, nil
		}, 4 * time.Second, false, 0},
		"no further measurement": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun.Add(-time.Minute))}, nil
		}, layersWait, true, 0},
		"no time of measurement": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(time.Time{})}, nil
		}, 0, false, 0},
		"no report of layers": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{{}, {}}, nil
		}, 0, false, 0},
		"slow runtime": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun)}, nil
		}, 9 * time.Second, false, 9 * time.Second},
		"silent runtime": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun)}, nil
		}, layersWait, true, time.Hour},
		"unavailable runtime": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return nil, errors.New("connection refused")
		}, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				d := OpenDirectories(DirectoryOptions{Layers: func(ctx context.Context) ([]cri.ContainerStats, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(tc.answer):
					}
					all, err := tc.stats(time.Since(begun), begun)
					for i := range all {
						all[i].ID = string(rune('a' + i))
					}
					return all, err
				}})
				err := d.AwaitLayers(t.Context(), begun)
				if elapsed := time.Since(begun); elapsed != tc.wantTime || (err != nil) != tc.fails {
					t.Errorf("got %v after %s, want it after %s", err, elapsed, tc.wantTime)
				}
			})
		})
	}
}
