package referee

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

const mib = 1 << 20

func planned() spec.Incident {
	return spec.Incident{
		Name: "some", Threshold: spec.Amount{Share: 0.1}, Jitter: 0.2,
		Pods: []spec.Pod{
			{Name: "a", Count: 3, Processes: []spec.Process{{Count: 2, Steps: []spec.Step{{Verb: "hold", Time: time.Second}}}}},
			{Name: "b", Count: 1, Request: spec.Amount{Share: 0.2}, Processes: []spec.Process{{Count: 1}}},
		},
	}
}

func TestPlan_DependsOnSeedOnly(t *testing.T) {
	draw := func(seed uint64) []any {
		p := newPlan(planned(), gauge.Gauge{Total: 1000 * mib}, seed, 10*time.Second)
		return []any{p.phase, p.order, p.programs("a-1", p.Pods[0].Processes)}
	}
	if a, b := draw(1), draw(1); !reflect.DeepEqual(a, b) {
		t.Errorf("the same seed gave\n%v\n%v", a, b)
	}
	if a, b := draw(1), draw(2); reflect.DeepEqual(a, b) {
		t.Errorf("two seeds gave %v", a)
	}
	for seed := range uint64(200) {
		p := newPlan(planned(), gauge.Gauge{Total: 1000 * mib}, seed, 10*time.Second)
		order := slices.Sorted(slices.Values(p.order))
		held := p.programs("a-1", p.Pods[0].Processes)[1].Steps[0].Time
		if p.phase < 0 || p.phase >= 10*time.Second || !slices.Equal(order, []int{0, 1, 2, 3}) || held < 800*time.Millisecond || held > 1200*time.Millisecond {
			t.Fatalf("seed %d: phase %v, order %v, hold %v", seed, p.phase, p.order, held)
		}
	}
}

// TestFingerprint_IsThatOfTheRun checks that two contestants with one seed meet the same incident, and that
// no other two runs have the same fingerprint.
func TestFingerprint_IsThatOfTheRun(t *testing.T) {
	of := func(change func(*spec.Incident), total int64, seed uint64, period time.Duration, usage string) string {
		i := planned()
		change(&i)
		id, err := newPlan(i, gauge.Gauge{Total: total, Usage: usage}, seed, period).fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	same := func(*spec.Incident) {}
	first := of(same, 1000*mib, 1, 10*time.Second, "/npb-1")
	if len(first) != 12 || first != of(same, 1000*mib, 1, 0, "/npb-2") || first != of(same, 1000*mib, 1, time.Second, "") {
		t.Error("the contestant's period or the name of the cgroup changes the incident")
	}
	for name, other := range map[string]string{
		"seed": of(same, 1000*mib, 2, 0, ""), "size of the node": of(same, 900*mib, 1, 0, ""),
		"incident": of(func(i *spec.Incident) { i.Name = "other" }, 1000*mib, 1, 0, ""),
		"step":     of(func(i *spec.Incident) { i.Pods[0].Processes[0].Steps[0].Time += time.Millisecond }, 1000*mib, 1, 0, ""),
		"daemon":   of(func(i *spec.Incident) { i.System = []spec.Process{{Count: 1}} }, 1000*mib, 1, 0, ""),
	} {
		if other == first {
			t.Errorf("another %s, and the same fingerprint", name)
		}
	}
}

func TestPrograms_DifferBetweenPods(t *testing.T) {
	p := newPlan(planned(), gauge.Gauge{Total: 1000 * mib}, 1, 0)
	first, successor := p.programs("a-1", p.Pods[0].Processes), p.programs("a-1+1", p.Pods[0].Processes)
	if reflect.DeepEqual(first, successor) {
		t.Errorf("a pod and its successor have the same times: %v", first)
	}
	if again := p.programs("a-1", p.Pods[0].Processes); !reflect.DeepEqual(first, again) {
		t.Errorf("the numbers of a pod depend on what was drawn before: %v, then %v", first, again)
	}
}

func TestSteps_AreAbsolute(t *testing.T) {
	rate, err := spec.ParseRate("10%/s")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlan(spec.Incident{}, gauge.Gauge{Total: 1000 * mib}, 1, 0)
	got := p.steps(p.dice("some"), []spec.Step{
		{Verb: "grow", Amount: spec.Amount{Share: 0.06, AllBut: true}, Rate: rate},
		{Verb: "spawn", Count: 3, AtOnce: 2, Every: time.Second, Session: true, Steps: []spec.Step{{Verb: "release", Amount: spec.Amount{Bytes: 7}}}},
	})
	want := []hog.Step{
		{Verb: "grow", Bytes: 60 * mib, AllBut: true, Rate: 100 * mib},
		{Verb: "spawn", Count: 3, AtOnce: 2, Every: time.Second, Session: true, Steps: []hog.Step{{Verb: "release", Bytes: 7}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestManifest_ShowsClassAndNothingElse(t *testing.T) {
	p := newPlan(planned(), gauge.Gauge{Total: 1000 * mib}, 1, 0)
	for _, c := range []struct {
		request, limit int64
		qos            arena.QoS
		resources      string
	}{
		{0, 0, arena.BestEffort, `{"limits":{},"requests":{}}`},
		{5, 0, arena.Burstable, `{"limits":{},"requests":{"memory":"5"}}`},
		{5, 7, arena.Burstable, `{"limits":{"memory":"7"},"requests":{"memory":"5"}}`},
		{7, 7, arena.Guaranteed, `{"limits":{"cpu":"100m","memory":"7"},"requests":{"cpu":"100m","memory":"7"}}`},
	} {
		pod := &spec.Pod{Name: "secret", Priority: 3, Request: spec.Amount{Bytes: c.request}, Limit: spec.Amount{Bytes: c.limit}}
		qos := p.qos(pod)
		text, err := manifest("pod-1", "uid-1", pod, qos, p.total)
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Metadata struct{ Name, UID string }
			Spec     struct {
				Priority   int
				Containers []struct{ Resources json.RawMessage }
			}
		}
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		resources := strings.NewReplacer(" ", "", "\n", "").Replace(string(object.Spec.Containers[0].Resources))
		if qos != c.qos || resources != c.resources || object.Spec.Priority != 3 || object.Metadata.Name != "pod-1" || object.Metadata.UID != "uid-1" {
			t.Errorf("request %d, limit %d: %s, %s", c.request, c.limit, qos, text)
		}
		if strings.Contains(string(text), "secret") {
			t.Error("the manifest has the name that the pod has in the incident")
		}
	}
}

func TestDigest_CountsUnanswered(t *testing.T) {
	const ms = int64(time.Millisecond)
	var requests []hog.Request
	for due := int64(0); due < 2000*ms; due += 100 * ms { // 10 per second, answered in 1 ms until the stall
		requests = append(requests, hog.Request{Due: due, Latency: ms})
	}
	requests[4].Latency = 900 * ms // due at 400 ms, before the quiet time
	n := digest(requests, 10, 500*ms, 1000*ms, 3000*ms, 3000*ms)
	if n.Quiet.Requests != 5 || n.Quiet.Max != 1 {
		t.Errorf("quiet: %+v, want the 5 requests from 500 ms on", n.Quiet)
	}
	if n.During.Requests != 20 || n.During.Max != 1000 || n.During.P50 != 1 {
		t.Errorf("during: %+v, want 10 answered and 10 unanswered requests, of which the oldest waited 1 s", n.During)
	}
	if want := []float64{1.2, 1.2, 1.2, 0.8, 0, 0, 0, 0}; !near(n.Slots, want) {
		t.Errorf("slots %v, want %v", n.Slots, want)
	}
	if dead := digest(nil, 10, 0, 0, 1000*ms, 1000*ms); dead.During.Requests != 9 || dead.Quiet.Requests != 0 {
		t.Errorf("a neighbour that never answered: %+v", dead)
	}
}

// The latency is that of the part until a time, and of whole requests. The slots are those of the whole incident.
func TestDigest_OfOnePart(t *testing.T) {
	const ms = int64(time.Millisecond)
	requests := []hog.Request{{Due: 1000 * ms, Latency: ms}, {Due: 1100 * ms, Latency: 700 * ms}, {Due: 1200 * ms, Latency: 900 * ms}}
	n := digest(requests, 10, 0, 1000*ms, 1200*ms, 3000*ms)
	if n.During.Requests != 2 || n.During.Max != 700 || n.Until != 200 || len(n.Slots) != 8 {
		t.Errorf("%+v, want two requests, the slowest in 700 ms", n)
	}
}

func TestPlan_SpreadsPhasesOverSeeds(t *testing.T) {
	var parts []time.Duration
	for seed := uint64(11); seed <= 20; seed++ {
		parts = append(parts, newPlan(spec.Incident{Name: "x"}, gauge.Gauge{Total: 1 << 30}, seed, 10*time.Second).phase/time.Second)
	}
	if slices.Sort(parts); !slices.Equal(parts, []time.Duration{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("ten following seeds begin in the seconds %d of the period, want one in each", parts)
	}
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x-y < 1e-9 && y-x < 1e-9 })
}

func TestUnavailable_GivesReason(t *testing.T) {
	base := spec.Contestant{Arenas: []string{spec.Cgroup}}
	for _, c := range []struct {
		need spec.Need
		want string
	}{
		{spec.Need{}, ""},
		{spec.Need{File: "/proc/self/stat"}, ""},
		{spec.Need{Cgroup: 2, Because: "it reads v2"}, ""},
		{spec.Need{Cgroup: 1, Because: "it reads v1"}, "cgroup v1 is missing: it reads v1"},
		{spec.Need{File: "/none", Because: "why"}, "/none is missing: why"},
		{spec.Need{Program: "/none", Because: "why"}, "/none is missing: why"},
	} {
		one := base
		one.Needs = []spec.Need{c.need}
		if got := Unavailable(one, spec.Cgroup, 2); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.need, got, c.want)
		}
	}
	if got := Unavailable(base, spec.Machine, 2); !strings.Contains(got, "kind machine, only cgroup") {
		t.Errorf("got %q", got)
	}
	i := spec.Incident{System: []spec.Process{{Needs: []string{"/proc/self/exe"}}}, Pods: []spec.Pod{{Processes: []spec.Process{{Needs: []string{"no-such-program"}}}}}}
	if got := Missing(i); !strings.Contains(got, "no-such-program") {
		t.Errorf("got %q", got)
	}
}

func TestTail_KeepsTheEnd(t *testing.T) {
	var kept tail
	kept.add([]byte(strings.Repeat("a", maxTail)))
	kept.add([]byte("end"))
	if got := kept.String(); len(got) != maxTail || !strings.HasSuffix(got, "aend") {
		t.Errorf("%d bytes, …%s", len(got), got[len(got)-4:])
	}
}
