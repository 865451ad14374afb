package confirm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

var (
	withoutReads     = Policy{Outage: 30 * time.Second}
	withReads        = Policy{LiveReads: true, Outage: 30 * time.Second}
	limitedReads     = Policy{LiveReads: true, ReadsPerSecond: 2, Outage: 30 * time.Second}
	breakerWithReads = Policy{LiveReads: true, Outage: 30 * time.Second, MassFailureMinNodes: 3, MassFailureFraction: 0.1,
		MassFailureWindow: time.Minute, MassFailureMaxDuration: 5 * time.Minute}
	breakerWithoutReads = Policy{MassFailureMinNodes: 3, MassFailureWindow: time.Minute, MassFailureMaxDuration: 5 * time.Minute}
)

// step is an event for some names, followed by a decision in a cluster of 50 nodes.
type step struct {
	at   float64 // seconds
	do   string  // an event, and names
	want string  // in the notation of format
}

func (s *step) apply(c *Checker) {
	words := strings.Fields(s.do)
	for _, name := range words[1:] {
		switch words[0] {
		case "suspect":
			c.Add(name, at(s.at))
		case "clear":
			c.Clear(name)
		case "renewed":
			c.Answered(name, Renewed, at(s.at))
		case "unrenewed":
			c.Answered(name, Unrenewed, at(s.at))
		case "failed":
			c.Answered(name, Failed, at(s.at))
		}
	}
	switch words[0] {
	case "unreachable":
		c.Unreachable(at(s.at))
	case "delivered":
		c.Observed(at(s.at), at(s.at))
	}
}

func format(f Findings, c *Checker) string {
	var parts []string
	slices.Sort(f.Read) // ordered by a hash, tested elsewhere
	if len(f.Read) > 0 {
		parts = append(parts, "read "+strings.Join(f.Read, " "))
	}
	if len(f.Lost) > 0 {
		parts = append(parts, "lost "+strings.Join(f.Lost, " "))
	}
	if !f.NotBefore.IsZero() {
		parts = append(parts, fmt.Sprint("notBefore ", f.NotBefore.Sub(start).Seconds()))
	}
	if open, since, _ := c.Breaker(); open {
		parts = append(parts, fmt.Sprint("open ", since.Sub(start).Seconds()))
	}
	return strings.Join(parts, ", ")
}

var scenarios = []struct {
	name   string
	policy Policy
	steps  []step
}{
	{"no live reads", withoutReads, []step{
		{0, "suspect b a", "lost a b"},
		{1, "suspect a", ""},
		{2, "clear a", ""},
		{3, "suspect a", "lost a"},
	}},
	{"unrenewed lease", withReads, []step{
		{0, "suspect a", "read a"},
		{1, "wait", ""},
		{2, "unrenewed a", "lost a"},
		{3, "wait", ""},
	}},
	{"renewed lease", withReads, []step{
		{0, "suspect a", "read a"},
		{1, "renewed a", ""},
		{1, "clear a", ""},
		{9, "wait", ""},
	}},
	{"renewed lease, node not cleared", withReads, []step{
		{0, "suspect a", "read a"},
		{1, "renewed a", ""},
		{2, "wait", "read a"},
		{3, "unrenewed a", "lost a"},
	}},
	{"failed reads with backoff", withReads, []step{
		{0, "suspect a", "read a"},
		{0, "failed a", ""},
		{1, "wait", "read a"},
		{1, "failed a", ""},
		{2.9, "wait", ""},
		{3, "wait", "read a"},
		{3, "failed a", ""},
		{7, "wait", "read a"},
		{7, "failed a", ""},
		{15, "wait", "read a"},
		{15, "failed a", ""},
		{24.9, "wait", ""},
		{25, "wait", "read a"},
		{25, "failed a", ""},
		{35, "wait", "read a"},
	}},
	{"outage: another read after its grace", withReads, []step{
		{0, "suspect a", "read a"},
		{10, "failed a", ""},
		{11, "wait", "read a"},
		{12, "unrenewed a", "notBefore 42"},
		{41, "wait", ""},
		{42, "wait", "read a"},
		{43, "unrenewed a", "lost a"},
	}},
	{"read started during an outage", withReads, []step{
		{0, "suspect a b", "read a b"},
		{10, "failed b", ""},
		{10, "suspect c", "read c"},
		{11, "unrenewed c", "notBefore 41"},
		{12, "unrenewed a", ""},
		{12, "unrenewed b", ""},
		{41, "wait", "read a b c"},
		{42, "unrenewed a b", "lost a b"},
	}},
	{"outage of the watch only", withReads, []step{
		{0, "unreachable", ""},
		{5, "suspect a", "read a"},
		{6, "delivered", "notBefore 36"},
		{7, "unrenewed a", ""},
		{36, "wait", "read a"},
	}},
	{"one failed read, no outage", withReads, []step{
		{0, "suspect a b", "read a b"},
		{1, "delivered", ""},
		{2, "failed a", ""},
		{2, "unrenewed b", "lost b"},
		{3, "wait", "read a"},
	}},
	{"outage without live reads", withoutReads, []step{
		{0, "unreachable", "notBefore 30"},
		{10, "unreachable", "notBefore 40"},
		{20, "suspect a", ""},
		{39, "wait", ""},
		{40, "wait", "lost a"},
	}},
	{"answer to a read before Clear", withReads, []step{
		{0, "suspect a", "read a"},
		{1, "clear a", ""},
		{2, "suspect a", ""},
		{3, "unrenewed a", "read a"},
		{4, "unrenewed a", "lost a"},
	}},
	{"answer without a read", withReads, []step{
		{0, "suspect a", "read a"},
		{1, "failed a", ""},
		{1.5, "unrenewed a", "notBefore 31.5"},
		{31.5, "wait", "read a"},
	}},
	{"rate of reads", limitedReads, []step{
		{0, "suspect a b c", "read c"},
		{0.5, "wait", ""},
		{0.500000001, "wait", "read b"},
		{60, "wait", "read a"},
		{60, "suspect d", ""},
		{61, "wait", "read d"},
	}},
	{"mass failure of lost nodes", breakerWithReads, []step{
		{0, "suspect a b c", "read a b c"},
		{1, "suspect d e f", "read d e f, open 1"},
		{2, "unrenewed a b c d e", "open 1"},
		{3, "unrenewed f", "lost a b c d e f"},
		{4, "suspect g", "read g"},
	}},
	{"mass failure after earlier losses", breakerWithReads, []step{
		{0, "suspect x y", "read x y"},
		{1, "unrenewed x y", "lost x y"},
		{2, "clear x", ""},
		{90, "suspect a b c d e f", "read a b c d e f, open 90"},
		{91, "unrenewed a b c d e", "open 90"},
		{92, "unrenewed f", "lost a b c d e f"},
	}},
	{"mass failure by a stale watch", breakerWithReads, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "unrenewed a b c", "open 0"},
		{2, "renewed d", "open 0"},
		{2, "clear d", "open 0"},
		{3, "unrenewed e f", "open 0"},
		{299.9, "wait", "open 0"},
		{300, "wait", "read a b c e f"},
		{301, "unrenewed a b", "lost a b"},
	}},
	{"mass failure that ends", breakerWithReads, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "clear a b c d e f", ""},
	}},
	{"mass failure without live reads", breakerWithoutReads, []step{
		{0, "suspect a b c", "lost a b c"},
		{30, "suspect d", "open 30"},
		{329, "suspect e", "open 30"},
		{330, "wait", "lost d e"},
	}},
	{"losses outside the window", breakerWithoutReads, []step{
		{0, "suspect a b c", "lost a b c"},
		{61, "suspect d", "lost d"},
	}},
	{"share of a large cluster", breakerWithReads, []step{
		{0, "suspect a b c d e", "read a b c d e"}, // 10 % of 50 nodes
		{1, "suspect f", "read f, open 1"},
	}},
	{"outage during a mass failure", breakerWithReads, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "unrenewed a b c d e", "open 0"},
		{2, "unreachable", "open 0"},
		{3, "unrenewed f", "notBefore 33, open 0"},
		{33, "wait", "read a b c d e f, open 0"},
		{34, "unrenewed f a b c d", "open 0"},
		{35, "unrenewed e", "lost a b c d e f"},
	}},
}

func TestDecide_FollowsEvents(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			c := New(s.policy)
			for _, step := range s.steps {
				step.apply(c)
				if got := format(c.Decide(50, at(step.at)), c); got != step.want {
					t.Errorf("%v s, %s: got %q, want %q", step.at, step.do, got, step.want)
				}
			}
		})
	}
}

func TestBreaker_ReportsReason(t *testing.T) {
	c := New(breakerWithReads)
	for _, name := range strings.Fields("a b c d e f") {
		c.Add(name, at(0))
	}
	c.Decide(50, at(0))
	const want = "6 of 50 nodes missed their heartbeats within 1m0s, more than 5"
	if _, _, reason := c.Breaker(); reason != want {
		t.Errorf("got reason %q, want %q", reason, want)
	}
}

// TestDecide_ReadsLeasesOfAllZones uses consecutive names, which often belong to one zone or pool.
func TestDecide_ReadsLeasesOfAllZones(t *testing.T) {
	const zones, each = 5, 200
	c := New(Policy{LiveReads: true, ReadsPerSecond: 20})
	for i := range zones * each {
		c.Add(fmt.Sprintf("zone-%d-node-%04d", i/each, i%each), at(0))
	}
	reads := map[string]int{}
	for now := at(0); now.Before(at(2)); {
		for _, name := range c.Decide(zones*each, now).Read {
			reads[name[:6]]++
		}
		next, ok := c.Next()
		if !ok || !next.After(now) {
			t.Fatalf("next: got %v, %v with suspects left", next, ok)
		}
		now = next
	}
	for zone := range zones {
		if n := reads[fmt.Sprint("zone-", zone)]; n < 2 || n > 16 {
			t.Errorf("zone %d: got %d of 40 reads, want 2 to 16", zone, n)
		}
	}
}

func TestDecide_ReadsEachLeaseBeforeRepeating(t *testing.T) {
	const nodes = 30
	c := New(Policy{LiveReads: true, ReadsPerSecond: 1})
	for i := range nodes {
		c.Add(fmt.Sprint("n", i), at(0))
	}
	read := map[string]bool{}
	for now := at(0); len(read) < nodes; {
		for _, name := range c.Decide(nodes, now).Read {
			if read[name] {
				t.Fatalf("%s was read again before %d others were read", name, nodes-len(read))
			}
			read[name] = true
			c.Answered(name, Failed, now)
		}
		now, _ = c.Next()
	}
}

// TestHeard_CountsFromArrival checks that an event delivered before a read began is no
// evidence that the server has answered since, however late it is processed.
func TestHeard_CountsFromArrival(t *testing.T) {
	for _, c := range []struct {
		came    float64
		current bool
	}{{9, false}, {10, false}, {11, true}} {
		checker := New(withReads)
		checker.Add("a", at(10))
		checker.Decide(50, at(10))
		checker.Observed(at(c.came), at(12))
		checker.Observed(at(5), at(12)) // of another node, delayed for longer
		checker.Answered("a", Failed, at(12))
		if current, _ := checker.ViewCurrent(at(12)); current != c.current {
			t.Errorf("failed read from 10 s, renewal at %v s: got current %v, want %v", c.came, current, c.current)
		}
	}
}

func TestViewCurrent_AfterOutageGrace(t *testing.T) {
	c := New(withReads)
	if current, _ := c.ViewCurrent(at(0)); !current {
		t.Error("view not current without an outage")
	}
	c.Unreachable(at(10))
	if current, from := c.ViewCurrent(at(500)); current || !from.IsZero() {
		t.Errorf("during an outage: got %v from %v, want neither", current, from)
	}
	c.Observed(at(500), at(500))
	if current, from := c.ViewCurrent(at(500)); current || !from.Equal(at(530)) {
		t.Errorf("right after an outage: got %v from %v, want 530s", current, from.Sub(at(0)))
	}
	if current, _ := c.ViewCurrent(at(530)); !current {
		t.Error("view not current after the outage grace")
	}
}

func BenchmarkHeard(b *testing.B) {
	c := New(breakerWithReads)
	b.ReportAllocs()
	for b.Loop() {
		c.Observed(start, start)
	}
}

func TestSetPolicy_KeepsSuspects(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after Policy
		steps, then   []step // before and after the change
	}{
		{"no live reads any more", withReads, withoutReads, []step{{0, "suspect a b", "read a b"}}, []step{{2, "wait", "lost a b"}, {3, "unrenewed b", ""}}},
		{"no live reads after an outage", withReads, withoutReads, []step{{0, "suspect a b", "read a b"}, {1, "failed a", ""}}, []step{{2, "wait", ""}, {3, "unrenewed b", "notBefore 33"}, {33, "wait", "lost a b"}, {40, "wait", ""}}},
		{"live reads again", withoutReads, withReads, []step{{0, "unreachable", "notBefore 30"}, {1, "suspect a", ""}}, []step{{2, "wait", ""}, {30, "wait", "read a"}, {31, "unrenewed a", "lost a"}}},
		{"faster reads", Policy{LiveReads: true, ReadsPerSecond: 0.1}, limitedReads, []step{{0, "suspect a", "read a"}, {1, "suspect b", ""}}, []step{{10, "wait", ""}, {10.1, "wait", "read b"}}},
		{"no breaker any more", breakerWithoutReads, Policy{}, []step{{0, "suspect a b c d", "open 0"}}, []step{{1, "wait", "lost a b c d"}, {2, "wait", ""}}},
		{"lost ones stay lost", withoutReads, withReads, []step{{0, "suspect a", "lost a"}}, []step{{1, "wait", ""}, {60, "wait", ""}}},
	} {
		c := New(tc.before)
		run := func(steps []step) {
			for _, s := range steps {
				s.apply(c)
				if got := format(c.Decide(50, at(s.at)), c); got != s.want {
					t.Errorf("%s, at %g after %q: got %q, want %q", tc.name, s.at, s.do, got, s.want)
				}
				if next, ok := c.Next(); ok && !next.After(at(s.at)) {
					if got := format(c.Decide(50, at(s.at)), c); got == "" {
						t.Errorf("%s, at %g: Next is now, and nothing follows", tc.name, s.at)
					}
				}
			}
		}
		run(tc.steps)
		c.SetPolicy(tc.after, at(tc.then[0].at-0.5))
		run(tc.then)
	}
}
