package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwaitExamination(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		about                              string
		pause, replaced, changed, canceled time.Duration
		refused                            time.Duration // 0: never
		want                               time.Duration
		wantChanged                        bool
	}{
		{about: "nothing happens", pause: examinePeriod, replaced: never, changed: never, canceled: never, want: examinePeriod},
		{about: "short pause", pause: 30 * time.Second, replaced: 0, changed: never, canceled: never, want: 30 * time.Second},
		{about: "kubelet replaced", pause: examinePeriod, replaced: 205 * time.Second, changed: never, canceled: never, want: 210 * time.Second},
		{about: "kubelet replaced at once", pause: examinePeriod, replaced: 0, changed: never, canceled: never, want: refusedPeriod},
		{about: "kubelet replaced last", pause: 65 * time.Second, replaced: 62 * time.Second, changed: never, canceled: never, want: 65 * time.Second},
		{about: "setting changed", pause: examinePeriod, replaced: never, changed: 5 * time.Second, canceled: never, want: 5 * time.Second, wantChanged: true},
		{about: "context ends", pause: examinePeriod, replaced: never, changed: never, canceled: 3 * time.Second, want: 3 * time.Second},
		{about: "status refused", pause: examinePeriod, replaced: never, changed: never, canceled: never, refused: 90 * time.Second, want: 100 * time.Second, wantChanged: true},
		{about: "status refused at once", pause: examinePeriod, replaced: never, changed: never, canceled: never, refused: time.Second, want: 11 * time.Second, wantChanged: true},
		{about: "status refused last", pause: 65 * time.Second, replaced: never, changed: never, canceled: never, refused: 64 * time.Second, want: 74 * time.Second, wantChanged: true},
		{about: "status refused, kubelet replaced", pause: examinePeriod, replaced: 0, changed: never, canceled: never, refused: 55 * time.Second, want: 65 * time.Second, wantChanged: true},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				changed := make(chan struct{}, 1)
				if c.changed != never {
					time.AfterFunc(c.changed, func() { changed <- struct{}{} })
				}
				if c.canceled != never {
					time.AfterFunc(c.canceled, cancel)
				}
				replaced := func() bool { return c.replaced != never && time.Since(start) >= c.replaced }
				refused := make(chan struct{}, 1)
				if c.refused > 0 {
					time.AfterFunc(c.refused, func() { refused <- struct{}{} })
				}
				got := awaitExamination(ctx, c.pause, changed, refused, replaced)
				if d := time.Since(start); d != c.want || got != c.wantChanged {
					t.Errorf("got changed %v after %v, want %v after %v", got, d, c.wantChanged, c.want)
				}
			})
		})
	}
}
