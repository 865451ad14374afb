package ring

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// A check with another configuration begins a segment with it, and no check is lost. Without a storage the
// last configuration is that of the first segment.
func TestRing_ConfigurationBeginsSegment(t *testing.T) {
	for name, failures := range map[string]int{"open": 0, "opens later": 2} {
		m := disk(t)
		synctest.Test(t, func(*testing.T) {
			o, attempts := options(), 0
			o.Header.Config = json.RawMessage(`{"n":0}`)
			r := start(o, func() (storage, error) {
				if attempts++; attempts <= failures {
					return nil, errInUse
				}
				return m, nil
			})
			for n := range 60 {
				if n%10 == 5 {
					r.Next().Config = fmt.Appendf(nil, `{"n":%d}`, n)
				} else {
					r.Next()
				}
				e := &r.slots[r.tail.Load()%queueLength]
				e.Check.Seq, e.Check.Snapshot.At = uint64(n), time.Now()
				r.Commit(time.Now(), true)
				<-time.After(time.Second)
			}
			r.Close()
		})
		config, last := "", uint64(0)
		for _, s := range m.segments {
			reader := recording.NewReader(s.data)
			for e := reader.Next(); e != nil; e = reader.Next() {
				switch {
				case e.Header != nil:
					config = string(e.Header.Config)
				case e.Check != nil:
					last = e.Check.Seq
					want := fmt.Sprintf(`{"n":%d}`, (last+5)/10*10-5)
					if last < 5 {
						want = `{"n":0}`
					}
					if config != want {
						t.Errorf("%s: check %d is below the configuration %s, want %s", name, last, config, want)
					}
				}
			}
		}
		if last != 59 || failures == 0 && len(m.segments) != 7 {
			t.Errorf("%s: %d segments, the last check is %d", name, len(m.segments), last)
		}
	}
}
