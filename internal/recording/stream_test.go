package recording

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// streamed returns the values of a recording that arrives in parts of random sizes.
func streamed(s *Stream, data []byte, most int, r *rand.Rand) (values []any) {
	for len(data) > 0 {
		n := min(1+r.IntN(most), len(data))
		s.Add(data[:n])
		data = data[n:]
		for e := s.Next(); e != nil; e = s.Next() {
			switch {
			case e.Check != nil:
				values = append(values, e.Check)
			case e.Usage != nil:
				values = append(values, e.Usage)
			case e.Decision != nil:
				values = append(values, e.Decision)
			}
		}
	}
	return values
}

// shortOf returns what a stream has of the values of a reader.
func shortOf(values []any) (all []any) {
	short := func(p *signals.Pod) *signals.Pod {
		q := *p
		q.Containers, q.Ephemeral, q.Volumes, q.HostPaths = nil, nil, nil, nil
		return &q
	}
	for _, v := range values {
		switch v := v.(type) {
		case *Check:
			c := *v
			c.Act, c.State = nil, nil
			all = append(all, &c)
		case *Usage:
			u := *v
			u.Pods, u.Gone = nil, nil
			for _, p := range v.Pods {
				u.Pods = append(u.Pods, PodUsage{short(p.Pod), p.Values})
			}
			for _, g := range v.Gone {
				u.Gone = append(u.Gone, Gone{short(g.Pod), g.End})
			}
			all = append(all, &u)
		default:
			all = append(all, v)
		}
	}
	return all
}

// In parts of any size, a stream decodes what a reader does, without what it leaves out.
func TestStream_DecodesPartsOfAnySize(t *testing.T) {
	data := append(encoded(t, header(), story()...), encoded(t, header(), story()...)...)
	values, _, damage := read(data)
	if damage != (Damage{}) {
		t.Fatal(damage)
	}
	want := shortOf(values)
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 7, 100, len(data)} {
		s := NewStream()
		if got := streamed(s, data, most, r); !cmp.Equal(got, want) || s.Damage() != (Damage{}) {
			t.Errorf("parts of up to %d bytes: %+v, %s", most, s.Damage(), cmp.Diff(want, got))
		}
	}
}

// A flipped bit costs the frames up to the next absolute one, and a stream that ends in a frame continues with the next
// segment.
func TestStream_ContinuesBehindDamage(t *testing.T) {
	whole := encoded(t, header(), story()...)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		damaged := bytes.Clone(whole)
		damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
		s := NewStream()
		streamed(s, damaged[:1+r.IntN(len(damaged))], 64, r)
		s.End()
		if got, want := len(streamed(s, whole, 64, r)), len(story()); got != want {
			t.Fatalf("round %d: %d values of the next segment, want %d", i, got, want)
		}
	}
	// The damaged length of a frame does not make it wait for a megabyte.
	damaged := bytes.Clone(whole)
	first := sizeAt(damaged)
	damaged[first+3] = 0x0f
	s := NewStream()
	if got := streamed(s, append(damaged, whole...), len(whole), r); len(got) < len(story()) {
		t.Errorf("%d values behind a damaged length, want %d", len(got), len(story()))
	}
}

// What is no recording is dropped: a stream holds at most one frame of it.
func TestStream_MemoryIsBounded(t *testing.T) {
	s, part := NewStream(), bytes.Repeat([]byte{marker, 0xff, 0xff, 0x0f, 0}, 13<<10)
	for range 40 {
		s.Add(part)
		if e := s.Next(); e != nil {
			t.Fatal(e)
		}
	}
	if got := len(s.data); got > maxFrame || cap(s.data) > 4*maxFrame {
		t.Errorf("%d bytes are held in %d, at most %d", got, cap(s.data), maxFrame)
	}
	if d := s.Damage(); d.Bytes != int64(40*len(part)-len(s.data)) {
		t.Errorf("%+v", d)
	}
	s.End()
	if got := len(streamed(s, encoded(t, header(), quiet(1, 0, 1)), 1<<20, rand.New(rand.NewPCG(5, 6)))); got != 1 {
		t.Errorf("%d values behind it, want 1", got)
	}
}

func TestMeasured_UnknownStaysUnknown(t *testing.T) {
	v := [ValueCount]int64{WorkingSet: 10, Anon: 3, Shmem: Unknown, Kernel: 4}
	if got := MemoryRelief(&v); got != signals.Of[signals.Bytes](7) {
		t.Errorf("relief %+v", got)
	}
	v[Anon] = Unknown
	if got := MemoryRelief(&v); got.Known {
		t.Errorf("relief %+v without anonymous memory", got)
	}
	if got := Measured[signals.PIDs](-7); got != signals.Of[signals.PIDs](0) {
		t.Errorf("a negative value is %+v", got)
	}
}

func FuzzStream_BoundedAndWithoutPanic(f *testing.F) {
	f.Add(encoded(f, header(), story()...), 10)
	f.Add([]byte{marker}, 1)
	f.Fuzz(func(t *testing.T, data []byte, part int) {
		s := NewStream()
		streamed(s, data, max(part, 1), rand.New(rand.NewPCG(7, 8)))
		s.End()
	})
}
