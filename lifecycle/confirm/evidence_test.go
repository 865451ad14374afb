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
	trusting = Policy{Outage: 30 * time.Second}
	asking   = Policy{LiveReads: true, Outage: 30 * time.Second}
	slow     = Policy{LiveReads: true, ReadsPerSecond: 2, Outage: 30 * time.Second}
	stormy   = Policy{LiveReads: true, Outage: 30 * time.Second, StormNodes: 3, StormShare: 0.1,
		StormWindow: time.Minute, StormLongest: 5 * time.Minute}
	stormyAndTrusting = Policy{StormNodes: 3, StormWindow: time.Minute, StormLongest: 5 * time.Minute}
)

// step is an event for some names, followed by a decision in a cluster of 50 nodes.
type step struct {
	at    float64 // seconds
	do    string  // an event, and names
	finds string  // in the notation of tell
}

func (s *step) take(j *Checker) {
	words := strings.Fields(s.do)
	for _, name := range words[1:] {
		switch words[0] {
		case "suspect":
			j.Add(name, at(s.at))
		case "clear":
			j.Clear(name)
		case "renewed":
			j.Answered(name, Renewed, at(s.at))
		case "unrenewed":
			j.Answered(name, Unrenewed, at(s.at))
		case "failed":
			j.Answered(name, Failed, at(s.at))
		}
	}
	switch words[0] {
	case "unreachable":
		j.Unreachable(at(s.at))
	case "heard":
		j.Heard(at(s.at), at(s.at))
	}
}

func tell(f Findings, j *Checker) string {
	var said []string
	slices.Sort(f.Read) // their order is that of a hash, tested elsewhere
	if len(f.Read) > 0 {
		said = append(said, "read "+strings.Join(f.Read, " "))
	}
	if len(f.Lost) > 0 {
		said = append(said, "dead "+strings.Join(f.Lost, " "))
	}
	if !f.NotBefore.IsZero() {
		said = append(said, fmt.Sprint("floor ", f.NotBefore.Sub(start).Seconds()))
	}
	if open, since, _ := j.Breaker(); open {
		said = append(said, fmt.Sprint("open ", since.Sub(start).Seconds()))
	}
	return strings.Join(said, ", ")
}

var stories = []struct {
	name   string
	policy Policy
	steps  []step
}{
	{"without reads a silent node is dead", trusting, []step{
		{0, "suspect b a", "dead a b"},
		{1, "suspect a", ""},
		{2, "clear a", ""},
		{3, "suspect a", "dead a"},
	}},
	{"a lease that stands as we knew it", asking, []step{
		{0, "suspect a", "read a"},
		{1, "wait", ""},
		{2, "unrenewed a", "dead a"},
		{3, "wait", ""},
	}},
	{"a lease that was renewed", asking, []step{
		{0, "suspect a", "read a"},
		{1, "renewed a", ""},
		{1, "clear a", ""},
		{9, "wait", ""},
	}},
	{"a lease that was renewed, of a node that nobody clears, is read again", asking, []step{
		{0, "suspect a", "read a"},
		{1, "renewed a", ""},
		{2, "wait", "read a"},
		{3, "unrenewed a", "dead a"},
	}},
	{"a read that fails is repeated for ever, more and more slowly", asking, []step{
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
	{"after an outage everybody has time, and is read again", asking, []step{
		{0, "suspect a", "read a"},
		{10, "failed a", ""},
		{11, "wait", "read a"},
		{12, "unrenewed a", "floor 42"},
		{41, "wait", ""},
		{42, "wait", "read a"},
		{43, "unrenewed a", "dead a"},
	}},
	{"a read that began before the outage was over does not count", asking, []step{
		{0, "suspect a b", "read a b"},
		{10, "failed b", ""},
		{10, "suspect c", "read c"},
		{11, "unrenewed c", "floor 41"},
		{12, "unrenewed a", ""},
		{12, "unrenewed b", ""},
		{41, "wait", "read a b c"},
		{42, "unrenewed a b", "dead a b"},
	}},
	{"an outage that only the watch notices ends with the watch", asking, []step{
		{0, "unreachable", ""},
		{5, "suspect a", "read a"},
		{6, "heard", "floor 36"},
		{7, "unrenewed a", ""},
		{36, "wait", "read a"},
	}},
	{"one lease that cannot be read keeps nobody else alive", asking, []step{
		{0, "suspect a b", "read a b"},
		{1, "heard", ""},
		{2, "failed a", ""},
		{2, "unrenewed b", "dead b"},
		{3, "wait", "read a"},
	}},
	{"without reads an outage is over some time after its last sign", trusting, []step{
		{0, "unreachable", "floor 30"},
		{10, "unreachable", "floor 40"},
		{20, "suspect a", ""},
		{39, "wait", ""},
		{40, "wait", "dead a"},
	}},
	{"an answer to a question about its former life says nothing", asking, []step{
		{0, "suspect a", "read a"},
		{1, "clear a", ""},
		{2, "suspect a", ""},
		{3, "unrenewed a", "read a"},
		{4, "unrenewed a", "dead a"},
	}},
	{"an answer that nobody asked for is no evidence", asking, []step{
		{0, "suspect a", "read a"},
		{1, "failed a", ""},
		{1.5, "unrenewed a", "floor 31.5"},
		{31.5, "wait", "read a"},
	}},
	{"reads keep to their rate", slow, []step{
		{0, "suspect a b c", "read c"},
		{0.5, "wait", ""},
		{0.500000001, "wait", "read b"},
		{60, "wait", "read a"},
		{60, "suspect d", ""},
		{61, "wait", "read d"},
	}},
	{"a storm of nodes that are dead", stormy, []step{
		{0, "suspect a b c", "read a b c"},
		{1, "suspect d e f", "read d e f, open 1"},
		{2, "unrenewed a b c d e", "open 1"},
		{3, "unrenewed f", "dead a b c d e f"},
		{4, "suspect g", "read g"},
	}},
	{"who is dead already does not explain a storm, nor who was", stormy, []step{
		{0, "suspect x y", "read x y"},
		{1, "unrenewed x y", "dead x y"},
		{2, "clear x", ""},
		{90, "suspect a b c d e f", "read a b c d e f, open 90"},
		{91, "unrenewed a b c d e", "open 90"},
		{92, "unrenewed f", "dead a b c d e f"},
	}},
	{"a storm that is our watch's", stormy, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "unrenewed a b c", "open 0"},
		{2, "renewed d", "open 0"},
		{2, "clear d", "open 0"},
		{3, "unrenewed e f", "open 0"},
		{299.9, "wait", "open 0"},
		{300, "wait", "read a b c e f"},
		{301, "unrenewed a b", "dead a b"},
	}},
	{"a storm that passes", stormy, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "clear a b c d e f", ""},
	}},
	{"a storm without reads is waited out", stormyAndTrusting, []step{
		{0, "suspect a b c", "dead a b c"},
		{30, "suspect d", "open 30"},
		{329, "suspect e", "open 30"},
		{330, "wait", "dead d e"},
	}},
	{"suspicions far apart are no storm", stormyAndTrusting, []step{
		{0, "suspect a b c", "dead a b c"},
		{61, "suspect d", "dead d"},
	}},
	{"the share of a large cluster bears more", stormy, []step{
		{0, "suspect a b c d e", "read a b c d e"}, // 10 % of 50 nodes
		{1, "suspect f", "read f, open 1"},
	}},
	{"an outage during a storm makes its answers worthless", stormy, []step{
		{0, "suspect a b c d e f", "read a b c d e f, open 0"},
		{1, "unrenewed a b c d e", "open 0"},
		{2, "unreachable", "open 0"},
		{3, "unrenewed f", "floor 33, open 0"},
		{33, "wait", "read a b c d e f, open 0"},
		{34, "unrenewed f a b c d", "open 0"},
		{35, "unrenewed e", "dead a b c d e f"},
	}},
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			j := New(s.policy)
			for _, step := range s.steps {
				step.take(j)
				if got := tell(j.Decide(50, at(step.at)), j); got != step.finds {
					t.Errorf("%v s, %s: %q instead of %q", step.at, step.do, got, step.finds)
				}
			}
		})
	}
}

func TestWhyTheBreakerIsOpen(t *testing.T) {
	j := New(stormy)
	for _, name := range strings.Fields("a b c d e f") {
		j.Add(name, at(0))
	}
	j.Decide(50, at(0))
	const want = "6 of 50 nodes fell silent within 1m0s, more than 5"
	if _, _, why := j.Breaker(); why != want {
		t.Errorf("open because %q instead of %q", why, want)
	}
}

// TestReadsAreASampleOfAllZones uses names in sequence, which belong to one zone or pool.
func TestReadsAreASampleOfAllZones(t *testing.T) {
	const zones, each = 5, 200
	j := New(Policy{LiveReads: true, ReadsPerSecond: 20})
	for i := range zones * each {
		j.Add(fmt.Sprintf("zone-%d-node-%04d", i/each, i%each), at(0))
	}
	asked := map[string]int{}
	for now := at(0); now.Before(at(2)); {
		for _, name := range j.Decide(zones*each, now).Read {
			asked[name[:6]]++
		}
		next, ok := j.Next()
		if !ok || !next.After(now) {
			t.Fatalf("waits until %v, %v with suspects left", next, ok)
		}
		now = next
	}
	for zone := range zones {
		if n := asked[fmt.Sprint("zone-", zone)]; n < 2 || n > 16 {
			t.Errorf("of 40 reads %d were in zone %d", n, zone)
		}
	}
}

func TestEverybodyIsAskedBeforeSomebodyIsAskedAgain(t *testing.T) {
	const nodes = 30
	j := New(Policy{LiveReads: true, ReadsPerSecond: 1})
	for i := range nodes {
		j.Add(fmt.Sprint("n", i), at(0))
	}
	asked := map[string]bool{}
	for now := at(0); len(asked) < nodes; {
		for _, name := range j.Decide(nodes, now).Read {
			if asked[name] {
				t.Fatalf("%s is asked again while %d were not asked", name, nodes-len(asked))
			}
			asked[name] = true
			j.Answered(name, Failed, now)
		}
		now, _ = j.Next()
	}
}

// TestARenewalIsHeardWhenItCame checks that an event delivered before a read began is no
// evidence that the server has answered since, however late it is processed.
func TestARenewalIsHeardWhenItCame(t *testing.T) {
	for _, c := range []struct {
		came float64
		sees bool
	}{{9, false}, {10, false}, {11, true}} {
		j := New(asking)
		j.Add("a", at(10))
		j.Decide(50, at(10))
		j.Heard(at(c.came), at(12))
		j.Heard(at(5), at(12)) // that of another node, which was delayed for longer
		j.Answered("a", Failed, at(12))
		if sees, _ := j.ViewCurrent(at(12)); sees != c.sees {
			t.Errorf("a read that began at 10 s failed, a renewal came at %v s: it sees: %v", c.came, sees)
		}
	}
}

func TestWhatIsSeenCountsWhenEverybodyHadTime(t *testing.T) {
	j := New(asking)
	if sees, _ := j.ViewCurrent(at(0)); !sees {
		t.Error("without an outage it does not see")
	}
	j.Unreachable(at(10))
	if sees, from := j.ViewCurrent(at(500)); sees || !from.IsZero() {
		t.Errorf("during an outage it sees: %v, or knows its end: %v", sees, from)
	}
	j.Heard(at(500), at(500))
	if sees, from := j.ViewCurrent(at(500)); sees || !from.Equal(at(530)) {
		t.Errorf("right after an outage it sees: %v, from %v on", sees, from.Sub(at(0)))
	}
	if sees, _ := j.ViewCurrent(at(530)); !sees {
		t.Error("it does not see when everybody had time to renew")
	}
}

func BenchmarkHeard(b *testing.B) {
	j := New(stormy)
	b.ReportAllocs()
	for b.Loop() {
		j.Heard(start, start)
	}
}
