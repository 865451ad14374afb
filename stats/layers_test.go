package stats

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

func TestAwaitLayers(t *testing.T) {
	layer := func(at time.Time) cri.ContainerStats {
		return cri.ContainerStats{WritableTime: at, WritableBytes: cri.Used{Value: 7000, Known: true}}
	}
	for about, tc := range map[string]struct {
		tells func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error)
		takes time.Duration
		fails bool
	}{
		"looked at since": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun)}, nil
		}, 0, false},
		"one of them every 10 s": {func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun), layer(begun.Add(-3*time.Second + passed.Truncate(10*time.Second)))}, nil
		}, 10 * time.Second, false},
		"a container of which nothing is told yet": {func(passed time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			if passed < 4*time.Second {
				return []cri.ContainerStats{layer(begun), {}}, nil
			}
			return []cri.ContainerStats{layer(begun), layer(begun)}, nil
		}, 4 * time.Second, false},
		"never again": {func(_ time.Duration, begun time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(begun.Add(-time.Minute))}, nil
		}, layersWait, true},
		"nobody says when": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{layer(time.Time{})}, nil
		}, 0, false},
		"nothing is told of layers": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return []cri.ContainerStats{{}, {}}, nil
		}, 0, false},
		"the runtime is away": {func(time.Duration, time.Time) ([]cri.ContainerStats, error) {
			return nil, errors.New("connection refused")
		}, 0, true},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				d := OpenDirectories(DirectoryOptions{Layers: func(context.Context) ([]cri.ContainerStats, error) {
					all, err := tc.tells(time.Since(begun), begun)
					for i := range all {
						all[i].ID = string(rune('a' + i))
					}
					return all, err
				}})
				err := d.AwaitLayers(t.Context(), begun)
				if took := time.Since(begun); took != tc.takes || (err != nil) != tc.fails {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}
