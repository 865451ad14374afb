package zones_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

const nodes, places = 150_000, 30

func cluster() (z *zones.Zones, names []string, in []model.Place) {
	z = zones.New(defaultPolicy())
	for i := range nodes {
		names = append(names, fmt.Sprintf("node-%06d", i))
		in = append(in, model.Place{Region: "r", Zone: fmt.Sprintf("z%02d", i%places)})
		z.Set(names[i], in[i], true, true)
	}
	z.Update(start)
	return z, names, in
}

// BenchmarkSet measures a change of one node of 150 000, and the resulting state of its zone.
func BenchmarkSet(b *testing.B) {
	z, names, in := cluster()
	b.ReportAllocs()
	i, ready := 0, false
	for b.Loop() {
		z.Set(names[i], in[i], ready, true)
		z.Update(start)
		if i += 7919; i >= nodes {
			i, ready = i%nodes, !ready
		}
	}
}

// BenchmarkSame measures an observation without a change, the most frequent case.
func BenchmarkSame(b *testing.B) {
	z, names, in := cluster()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		z.Set(names[i], in[i], true, true)
		z.Update(start)
		if i += 7919; i >= nodes {
			i %= nodes
		}
	}
}

// BenchmarkTake measures a turn of a zone with 10 000 waiting nodes; a served node joins again
// at the end.
func BenchmarkTake(b *testing.B) {
	z, names, in := cluster()
	for i := range 10_000 {
		z.Set(names[i], in[0], true, true) // all in one zone
		z.Wait(names[i], start.Add(time.Duration(i)))
	}
	z.Update(start)
	b.ReportAllocs()
	now := start
	for b.Loop() {
		now = now.Add(10 * time.Second)
		for _, name := range z.Take(now) {
			z.Wait(name, now)
		}
	}
}
