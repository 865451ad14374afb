package stats

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// A runtime without an answer in time is queried seldom, because it completes abandoned requests too.
func TestQueryRuntime_PausesAfterNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, time.Hour
		fault := error(nil)
		d := newDisk(t).open(DirectoryOptions{Layers: func(ctx context.Context) ([]cri.ContainerStats, error) {
			asked++
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(answer):
				return nil, fault
			}
		}})
		rounds := func(length time.Duration) (requests int, err error) {
			before := asked
			for end := time.Now().Add(length); time.Now().Before(end); <-time.After(time.Second) {
				err = d.Measure(t.Context(), nil)
			}
			return asked - before, err
		}
		// Requests of 2 s begin at 0, 12, 34, 76, 138, 200 and 262 s.
		if n, err := rounds(5 * time.Minute); n != 7 || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "follows after 1m0s") {
			t.Errorf("without an answer: %d requests in 5 minutes, %v", n, err)
		}
		if n, err := rounds(time.Second); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in a pause: %d requests, %v", n, err)
		}
		answer = 5 * time.Second // in time for a measurement under pressure, which does not pause
		if err := d.AwaitLayers(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
		answer = 0
		if n, err := rounds(10 * time.Second); n != 10 || err != nil {
			t.Errorf("with answers: %d requests in 10 s, %v", n, err)
		}
		fault = errors.New("connection refused")
		if n, err := rounds(10 * time.Second); n != 10 || !errors.Is(err, fault) {
			t.Errorf("with refusals: %d requests in 10 s, %v", n, err)
		}
	})
}

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
