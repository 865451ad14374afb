package sandbox

import (
	"fmt"
	"testing"
)

// BenchmarkFill measures the rates of a hog on memory that was touched before. The requested
// rate is in MiB/s; 0: unlimited.
func BenchmarkFill(b *testing.B) {
	Need(b)
	const size = 512
	if _, err := Warm(b.Context(), 2*size<<20); err != nil {
		b.Fatal(err)
	}
	for _, rate := range []int{0, 1000, 500, 200, 50} {
		b.Run(fmt.Sprintf("ask=%d", rate), func(b *testing.B) {
			n, err := NewNode("bench", 2*size<<20)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = n.Close() })
			p, err := n.AddPod("bench", Guaranteed, "main")
			if err != nil {
				b.Fatal(err)
			}
			h, err := n.StartHog(b.Context(), p, "main")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = h.Close() })
			order := fmt.Sprintf("fill %dMiB", size)
			if rate > 0 {
				order += fmt.Sprintf(" at %dMiB/s", rate)
			}
			var seconds float64
			for b.Loop() {
				took, err := h.Do(b.Context(), order)
				if err != nil {
					b.Fatal(err)
				}
				seconds += took.Seconds()
				if _, err := h.Do(b.Context(), "release"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(size*float64(b.N)/seconds, "MiB/s")
		})
	}
}
