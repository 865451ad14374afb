package cgroup

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseMemoryEvents_NamesMissingOrMalformedLine(t *testing.T) {
	const text = "low 1\nhigh 22\nmax 333\noom 4\noom_kill 5\noom_group_kill 6\nsock_throttled 0\n"
	if e, err := ParseMemoryEvents([]byte(text)); err != nil || e != (MemoryEvents{High: 22, Max: 333, OOM: 4, OOMKill: 5}) {
		t.Errorf("%+v, %v", e, err)
	}
	for _, key := range []string{"high", "max", "oom", "oom_kill"} {
		for _, broken := range []string{strings.Replace(text, "\n"+key+" ", "\nx ", 1), strings.Replace(text, "\n"+key+" ", "\n"+key+" -", 1)} {
			if e, err := ParseMemoryEvents([]byte(broken)); err == nil || !strings.Contains(err.Error(), key) || e != (MemoryEvents{}) {
				t.Errorf("%q: %+v, %v, want an error with %s", broken, e, err, key)
			}
		}
	}
}

func TestParseOOMKills_ReturnsCounter(t *testing.T) {
	if n, err := ParseOOMKills([]byte("oom_kill_disable 0\nunder_oom 1\noom_kill 7\n")); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "oom_kill_disable 0\nunder_oom 0\n", "oom_kill\n"} {
		if n, err := ParseOOMKills([]byte(text)); err == nil || n != 0 {
			t.Errorf("%q: %d, want an error", text, n)
		}
	}
}

func TestParsePopulated_ReturnsFlag(t *testing.T) {
	for text, want := range map[string]bool{"populated 1\nfrozen 0\n": true, "populated 0\nfrozen 1\n": false} {
		if got, err := ParsePopulated([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %t, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "frozen 1\n", "populated yes\n"} {
		if got, err := ParsePopulated([]byte(text)); got || err == nil {
			t.Errorf("%q: %t, want an error", text, got)
		}
	}
}

func TestParseThrottling_ReturnsTimeInUnitOfVersion(t *testing.T) {
	const v1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 1500\n"
	const v2 = "usage_usec 10\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1500\nnr_bursts 0\n"
	for _, c := range []struct {
		v       Version
		text    string
		total   time.Duration
		enabled bool
		fails   bool
	}{
		{v: V1, text: v1, total: 1500, enabled: true},
		{v: V2, text: v2, total: 1500 * time.Microsecond, enabled: true},
		{v: V2, text: "usage_usec 10\nuser_usec 5\n"}, // the controller is not enabled
		{v: V1, text: "nr_periods 9\n", fails: true},
		{v: V1, text: v2, fails: true},
		{v: V2, text: v1, fails: true},
		{v: V2, text: "nr_throttled many\nthrottled_usec 1\n", fails: true},
		{v: V2, text: "nr_throttled 1\nthrottled_usec 18446744073709551615\n", total: math.MaxInt64 / 1000 * 1000, enabled: true},
	} {
		got, enabled, err := ParseThrottling([]byte(c.text), c.v)
		if got.Time != c.total || enabled != c.enabled || (err != nil) != c.fails || c.total > 0 && got.Periods == 0 {
			t.Errorf("%s %q: %+v, %t, %v", c.v, c.text, got, enabled, err)
		}
	}
}

func TestParsePressure_ReturnsSomeLine(t *testing.T) {
	const text = "some avg10=12.34 avg60=0.12 avg300=0.05 total=2022017\nfull avg10=1.00 avg60=0.03 avg300=0.01 total=722809\n"
	if p, err := ParsePressure([]byte(text)); err != nil || p != (Pressure{1234, 2022017 * time.Microsecond}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ParsePressure([]byte("some avg10=100.00 total=18446744073709551615")); err != nil || p.Avg10 != 10000 || p.Total < math.MaxInt64-1000 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{
		"", "full avg10=0.00 total=1\n", "some\n", "some avg10=0.00\n", "some total=1\n", "some avg10=0 total=1\n",
		"some avg10=0.000 total=1\n", "some avg10=1e3.00 total=1\n", "some avg10=0.00 total=\n", "some avg10=101.00 total=5\n",
	} {
		if p, err := ParsePressure([]byte(text)); err == nil || p != (Pressure{}) {
			t.Errorf("%q: %+v, want an error", text, p)
		}
	}
}

// FuzzParseStalls checks that for any content a parser neither panics nor returns a value with
// an error. An accepted result does not change with additional unknown lines.
func FuzzParseStalls(f *testing.F) {
	for _, text := range []string{
		"low 1\nhigh 22\nmax 333\noom 4\noom_kill 5\n", "nr_periods 9\nnr_throttled 3\nthrottled_time 1500\n",
		"some avg10=12.34 avg60=0.12 avg300=0.05 total=2022017\n", "oom_kill_disable 0\nunder_oom 1\noom_kill 7\n", "\n \n=", "some avg10=99.9",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		more := append([]byte("unknown line\nalso 5\n"), text...)
		e, err := ParseMemoryEvents(text)
		expectSame(t, e, err)(ParseMemoryEvents(more))
		kills, err := ParseOOMKills(text)
		expectSame(t, kills, err)(ParseOOMKills(more))
		full, err := ParsePopulated(text)
		expectSame(t, full, err)(ParsePopulated(more))
		p, err := ParsePressure(text)
		expectSame(t, p, err)(ParsePressure(more))
		if p.Avg10 > 10099 || p.Total < 0 {
			t.Errorf("%q: %+v", text, p)
		}
		for _, v := range []Version{V1, V2} {
			h, _, err := ParseThrottling(text, v)
			again, _, errAgain := ParseThrottling(more, v)
			expectSame(t, h, err)(again, errAgain)
			if h.Time < 0 {
				t.Errorf("%q: %+v", text, h)
			}
		}
	})
}

func expectSame[V comparable](t *testing.T, a V, errA error) func(V, error) {
	return func(b V, errB error) {
		t.Helper()
		var zero V
		if a != b || (errA == nil) != (errB == nil) || errA != nil && a != zero {
			t.Errorf("%+v, %v and with unknown lines %+v, %v", a, errA, b, errB)
		}
	}
}
