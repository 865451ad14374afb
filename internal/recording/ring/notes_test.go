package ring

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Lines of other goroutines are recorded beside the checks. Those without room are counted, and no check
// counts them as lost: a replay does not need them.
func TestRing_NotesOfOtherGoroutines(t *testing.T) {
	m := disk(t)
	var dropped int64
	r := inBubble(t, m, options, func(r *Ring) {
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for k := range 4 {
					r.Note(map[string]int{"note": 4*n + k}, time.Now())
				}
			})
		}
		all.Wait()
		synctest.Wait()
		m.hang = make(chan struct{})
		for n := range 3 * maxNotes {
			r.Note(map[string]int{"note": 1000 + n}, time.Now())
		}
		dropped = r.Dropped()
		close(m.hang)
		synctest.Wait()
		offer(r, 1, false)
	})
	var all []byte
	for _, s := range m.segments {
		all = append(all, s.data...)
	}
	lines, lost := map[string]bool{}, uint64(0)
	reader := recording.NewReader(all)
	for e := reader.Next(); e != nil; e = reader.Next() {
		switch {
		case e.Decision != nil:
			lines[string(e.Decision.Line)] = true
		case e.Check != nil:
			lost += e.Check.Lost
		}
	}
	for n := range 32 {
		if !lines[fmt.Sprintf(`{"note":%d}`, n)] {
			t.Errorf("note %d is not recorded", n)
		}
	}
	if dropped < maxNotes || len(lines)+int(r.Dropped()) != 32+3*maxNotes || lost != 0 || r.Dropped() != dropped {
		t.Errorf("%d notes recorded, %d dropped, %d counted as lost before a check", len(lines), r.Dropped(), lost)
	}
}
