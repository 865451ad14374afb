package recording

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sequence is a run of three minutes: a check and a usage every ten seconds, a key frame each minute,
// in two segments.
func sequence(t *testing.T) []byte {
	t.Helper()
	e := NewEncoder(header())
	a, b := pod("a"), pod("b")
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	e.DropState()
	for i := range uint64(18) {
		now := time.Duration(i) * 10 * time.Second
		if i == 10 {
			e.Reset(8)
			if data, err = e.Header(data); err != nil {
				t.Fatal(err)
			}
		}
		c := quiet(i, now, 1<<30)
		if i%6 == 5 {
			c = key(c)
		}
		if i == 8 {
			c = acting(i, now, a, b)
			c.Lost = 3
		}
		if i > 14 {
			c.Clock = time.Hour
		}
		u := usage(now+time.Second, a, b)
		u.Clock = c.Clock
		if u.Node[NodeOOMKills] = int64(5 + i/4); i == 12 {
			u.Gone = []Gone{{b, EndEvicted}, {a, Ended}}
		}
		var check, usage bool
		data, check = e.Check(data, c)
		if data, usage = e.Usage(data, u); !check || !usage {
			t.Fatal("not encoded")
		}
	}
	return data
}

func seqs(values []any) (all []uint64) {
	for _, v := range values {
		if c, is := v.(*Check); is {
			all = append(all, c.Seq)
		}
	}
	return all
}

func TestExcerpt_BeginsWithState(t *testing.T) {
	data := sequence(t)
	for about, tc := range map[string]struct {
		begin, end time.Duration // negative: none
		first      uint64
		last       uint64
		state      bool // the header has the state before the run
	}{
		"all":              {-1, -1, 0, 17, true},
		"behind a key":     {75 * time.Second, 95 * time.Second, 5, 9, false},
		"at a key":         {50 * time.Second, 50 * time.Second, 0, 5, true},
		"between frames":   {41 * time.Second, 95 * time.Second, 0, 9, true},
		"before a key":     {45 * time.Second, 95 * time.Second, 0, 9, true},
		"over segments":    {75 * time.Second, -1, 5, 17, false},
		"second segment":   {95 * time.Second, 130 * time.Second, 10, 13, false},
		"behind its key":   {125 * time.Second, -1, 11, 17, false},
		"after the step":   {time.Hour, -1, 11, 17, false},
		"until the middle": {-1, 35 * time.Second, 0, 3, true},
	} {
		var begin, end time.Time
		if tc.begin >= 0 {
			begin = at(tc.begin)
		}
		if tc.end >= 0 {
			end = at(tc.end)
		}
		var out bytes.Buffer
		n, err := Excerpt(data, begin, end, &out)
		values, headers, damage := read(out.Bytes())
		got := seqs(values)
		if err != nil || damage != (Damage{}) || n != len(got) || n == 0 || got[0] != tc.first || got[n-1] != tc.last || (headers[0].State != nil) != tc.state {
			t.Errorf("%s: %d checks, %v, %+v, %v", about, n, got, damage, err)
		}
		full, _, _ := read(data)
		for _, v := range values {
			if c, is := v.(*Check); is {
				for _, w := range full {
					if o, is := w.(*Check); is && o.Seq == c.Seq && cmp.Diff(o, c) != "" {
						t.Errorf("%s: check %d differs", about, c.Seq)
					}
				}
			}
		}
	}
	if n, err := Excerpt(data, at(9*time.Hour), time.Time{}, &bytes.Buffer{}); n != 0 || err != nil {
		t.Errorf("behind the end: %d checks, %v", n, err)
	}
	if _, err := Excerpt(data, time.Time{}, time.Time{}, full{}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the error of the writer", err)
	}
}

var errFull = errors.New("full")

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// A file that was made to have many runs and steps of the clock is described in bounded memory.
func TestDescribe_IsBounded(t *testing.T) {
	var data []byte
	for i := range maxRuns + 5 {
		h := header()
		h.SinceBoot = time.Duration(i)
		data = append(data, encoded(t, h)...)
	}
	if info := Describe(data); len(info.Runs) != maxRuns || !info.More {
		t.Errorf("%d runs, more: %t", len(info.Runs), info.More)
	}
	var steps []any
	for i := range 100 {
		c := quiet(uint64(i), time.Duration(i)*time.Second, 1)
		c.Clock, c.Brief, c.Cut = time.Duration(i)*time.Hour, i < 7, i < 3
		steps = append(steps, c)
	}
	info := Describe(encoded(t, header(), steps...))
	if r := info.Runs[0]; len(r.ClockSteps) != maxClockSteps || r.Brief != 7 || r.Cut != 3 || info.More {
		t.Errorf("%+v", r)
	}
}

func TestDescribe_CountsPerRun(t *testing.T) {
	other := header()
	other.SinceBoot += time.Minute
	data := append(sequence(t), encoded(t, other, key(quiet(1, 0, 1)), &Decision{At: at(1), Line: []byte("{}")})...)
	data = append(data, marker, 1)
	info := Describe(data)
	if len(info.Runs) != 2 || info.Damage != (Damage{Bytes: 2, Tail: 1}) {
		t.Fatalf("%+v", info)
	}
	r := info.Runs[0]
	if r.Segments != 2 || r.Periodic != 17 || r.Early != 1 || r.Usages != 18 || r.Lost != 3 || r.Considered != 1 || r.DryRun != 1 || r.Evicted != 0 || r.PodsEvicted != 1 || r.OOMKills != 4 || r.MaxPods != 2 {
		t.Errorf("%+v", r)
	}
	if len(r.ClockSteps) != 1 || r.ClockSteps[0].By != time.Hour || !r.From.Equal(at(0)) || !r.To.Equal(at(171*time.Second+time.Hour)) {
		t.Errorf("from %s to %s, %+v", r.From, r.To, r.ClockSteps)
	}
	if s := info.Runs[1]; s.Segments != 1 || s.Decisions != 1 || s.OOMKills != Unknown {
		t.Errorf("%+v", s)
	}
}
