package recording

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// hour records an hour of a node with 110 pods of two containers. Each usage differs in working set,
// anonymous memory and stalls of every pod, by random amounts.
func hour(tb testing.TB, interval, measured time.Duration) []byte {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	pods := make([]*signals.Pod, 110)
	u := &Usage{Pods: make([]PodUsage, len(pods))}
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("deployment-%d-7b9f8c6d5-abcde", i))
		u.Pods[i] = PodUsage{Pod: pods[i], Values: [ValueCount]int64{WorkingSet: 200 << 20, Anon: 150 << 20, File: 60 << 20, Kernel: 1 << 20, Tasks: 20}}
	}
	e := NewEncoder(header())
	data, err := e.Header(nil)
	if err != nil {
		tb.Fatal(err)
	}
	for now := time.Duration(0); now < time.Hour; now += interval {
		c := quiet(uint64(now/interval), now, 2<<30+signals.Amount(r.IntN(1<<28)))
		c.Snapshot.Node[signals.AllocatableMemoryAvailable] = signals.Observed(1<<30+signals.Amount(r.IntN(1<<28)), 3<<30, c.Snapshot.At)
		if now%time.Minute == 0 {
			c = key(c)
		}
		var ok bool
		if data, ok = e.Check(data, c); !ok {
			tb.Fatal("not encoded")
		}
		if now%measured == 0 {
			u.At = c.Snapshot.At.Add(time.Millisecond)
			for i := range u.Pods {
				v := &u.Pods[i].Values
				v[WorkingSet] += r.Int64N(1<<20) - 1<<19
				v[Anon] += r.Int64N(1<<20) - 1<<19
				v[StallSome] += r.Int64N(5000)
			}
			if data, ok = e.Usage(data, u); !ok {
				tb.Fatal("not encoded")
			}
		}
	}
	return data
}

// BenchmarkExcerpt_Hour exports an hour of 110 pods near a threshold.
func BenchmarkExcerpt_Hour(b *testing.B) {
	data := hour(b, time.Second, time.Second)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Excerpt(data, time.Time{}, time.Time{}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// The default ring of 64 MiB holds about four days of a quiet node with 110 pods, and half a day near a
// threshold.
func TestRecording_SizeOfAnHour(t *testing.T) {
	for _, tc := range []struct {
		about              string
		interval, measured time.Duration
		limit              int
	}{
		{"far from a threshold", 10 * time.Second, 10 * time.Second, 1400 << 10},
		{"near a threshold", time.Second, time.Second, 8 << 20},
	} {
		data := hour(t, tc.interval, tc.measured)
		if len(data) > tc.limit {
			t.Errorf("%s: %d bytes in an hour, at most %d", tc.about, len(data), tc.limit)
		}
		var out bytes.Buffer
		if _, err := Excerpt(data, time.Time{}, time.Time{}, &out); err != nil || out.Len() != len(data) {
			t.Errorf("%s: %d bytes exported of %d, %v", tc.about, out.Len(), len(data), err)
		}
		t.Logf("%s: %d bytes in an hour", tc.about, len(data))
	}
}
