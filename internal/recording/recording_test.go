package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
)

var started = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func at(d time.Duration) time.Time { return started.Add(d) }

func header() Header {
	return Header{Segment: 7, Version: "1.2.3", Node: "n", BootID: "b", CgroupVersion: 2, Started: started, SinceBoot: time.Hour,
		Config: json.RawMessage(`{"evictionHard":{"memory.available":"100Mi"}}`), State: json.RawMessage(`{"a":1}`)}
}

func pod(name string) *signals.Pod {
	grace := int64(30)
	return &signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Priority: 7, Protection: signals.Critical, Owner: "o", TerminationGracePeriod: &grace,
		MemoryRequest: signals.Quantity{Value: 1 << 20, Text: "1Mi"}, Containers: []signals.Container{{Name: "app", ID: "abc-" + name}, {Name: "side"}},
		Volumes: []signals.Volume{{Name: "data", Local: true}}, HostPaths: []string{"/data"}, EndsBy: at(time.Minute), FromAPI: true}
}

func quiet(seq uint64, after time.Duration, available signals.Amount) *Check {
	c := &Check{Seq: seq, Snapshot: signals.Snapshot{At: at(after)}, Layout: signals.Split, StorageLimits: true}
	c.Snapshot.Node[signals.MemoryAvailable] = signals.Observation{Available: available, Capacity: 4 << 30, Cache: 5, Epoch: 3, Time: at(after + 3*time.Microsecond), Known: true}
	c.Snapshot.Node[signals.NodefsAvailable] = signals.Observed(9, 10, at(0))
	c.Snapshot.Node[signals.PIDAvailable] = signals.Unknown("no limit")
	c.Snapshot.Rates[signals.MemoryAvailable] = signals.Rate{By: -5, Over: 100 * time.Millisecond}
	return c
}

// acting returns a check with every part of an act.
func acting(seq uint64, after time.Duration, a, b *signals.Pod) *Check {
	c := quiet(seq, after, 50<<20)
	c.Snapshot.Kind, c.Snapshot.Woken, c.Snapshot.NeedsConfirmation = signals.Early, signals.ByOOM|signals.ByStall, true
	c.Met.Add(signals.MemoryAvailable)
	c.Imminent.Add(signals.AllocatableMemoryAvailable)
	c.Unknown.Add(signals.PIDAvailable)
	c.Conditions.Add(signals.MemoryPressure)
	c.Reason, c.Lost = 6, 2
	seen := c.Snapshot.Node
	seen[signals.MemoryAvailable].Available--
	seen[signals.MemoryAvailable].Time = at(after + time.Millisecond)
	usage := &signals.Usage{Time: at(after), Memory: signals.Of[signals.Bytes](1 << 30), Processes: signals.Of[signals.PIDs](3), Tasks: signals.Of[signals.PIDs](9), EphemeralStorage: signals.Of[signals.Bytes](7),
		Containers:   []signals.ContainerUsage{{Name: "abc-" + a.Name, Memory: signals.Of[signals.Bytes](5)}, {Name: "side", Rootfs: signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](1), Inodes: signals.Of[signals.Inodes](2), Incomplete: "cut short", Uncountable: true}}, {Name: "other"}},
		Volumes:      []signals.VolumeUsage{{Name: "data", FilesystemUsage: signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](8)}}, {Name: "gone"}},
		MemoryRelief: signals.Of[signals.Bytes](1 << 29), MemoryFiles: signals.Of[signals.Bytes](1 << 20),
		OtherLayers:  signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](11), Inodes: signals.Of[signals.Inodes](12), Incomplete: "a dead container is not reported"},
		KubeletFiles: signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](13)}}
	c.Act = &Act{Withdrawn: []Withdrawal{{"u", "ns", "o", at(after - time.Minute)}}, Blocks: []string{"", "the node shuts down"}, ForGrowth: true, ForLimits: true,
		Measured: [][]signals.Candidate{{{Pod: a, Usage: usage}, {Pod: b}}, {{Pod: b, Usage: &signals.Usage{}}}}, Seen: []signals.Observations{seen},
		Collections: []Collection{{[]signals.Garbage{signals.UnusedImages}, true}, {}}, Attempts: []Attempt{{Err: "timeout", Ends: true}, {DryRun: true}},
		Deletions: []Deletion{{UID: b.UID, Since: at(after - time.Second), Killed: true}, {UID: "new"}},
		Acted:     true, Signal: signals.MemoryAvailable, Blocked: "why", Reclaimed: []signals.Garbage{signals.DeadContainers}, Ranking: []*signals.Pod{b, a},
		Evicted: &Evicted{Pod: a, Cause: "memory.available", Hard: true, GracePeriod: 1, Message: "low", Annotations: map[string]string{"k": "v", "a": ""}, DisruptionTarget: true, DryRun: true},
		Failed:  []Failed{{b, "refused"}}, Spared: 4, KubeletsPod: b, Limit: "quota"}
	return c
}

func usage(after time.Duration, pods ...*signals.Pod) *Usage {
	u := &Usage{At: at(after), Node: [NodeValueCount]int64{1, Unknown, 3, 4, int64(after)}}
	for i, p := range pods {
		u.Pods = append(u.Pods, PodUsage{p, [ValueCount]int64{WorkingSet: int64(after) + int64(i), Swap: Unknown, OOMKills: 1}})
	}
	return u
}

// encoded returns a segment of the values, each a *Check, *Usage or *Decision.
func encoded(t testing.TB, h Header, values ...any) []byte {
	t.Helper()
	e := NewEncoder(h)
	b, err := e.Header(nil)
	ok := err == nil
	for _, v := range values {
		if !ok {
			t.Fatal("not encoded", err)
		}
		switch v := v.(type) {
		case *Check:
			b, ok = e.Check(b, v)
		case *Usage:
			b, ok = e.Usage(b, v)
		case *Decision:
			b, ok = e.Decision(b, v)
		}
	}
	if !ok {
		t.Fatal("the last value was not encoded")
	}
	return b
}

// read returns the values of a recording, without headers and pods.
func read(data []byte) (values []any, headers []*Header, damage Damage) {
	r := NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		switch {
		case e.Header != nil:
			headers = append(headers, e.Header)
		case e.Check != nil:
			values = append(values, e.Check)
		case e.Usage != nil:
			values = append(values, e.Usage)
		case e.Decision != nil:
			values = append(values, e.Decision)
		}
	}
	return values, headers, r.Damage()
}

func key(c *Check) *Check {
	c.State = []byte(`{"state":1}`)
	return c
}

// story is a run with every kind of frame, and a key frame in the middle.
func story() []any {
	a, b := pod("a"), pod("b")
	changed := *b
	changed.Priority++
	second := usage(22*time.Second, a, &changed)
	second.Clock = -time.Hour
	second.Gone = []Gone{{b, EvictedForPIDs}}
	stepped := quiet(11, 21*time.Second, 1<<30)
	stepped.Clock, stepped.Brief = -time.Hour, true
	return []any{
		key(quiet(1, 0, 3<<30)), usage(time.Second, a, b), quiet(2, 10*time.Second, 2<<30), &Decision{At: at(11 * time.Second), Clock: time.Second, Line: json.RawMessage(`{"decision":"evict"}`)},
		acting(9, 12*time.Second, a, b), usage(13*time.Second, b), key(quiet(10, 20*time.Second, 1<<30)), stepped, second, acting(12, 23*time.Second, &changed, a),
	}
}

func TestRecording_RoundTrip(t *testing.T) {
	want, h := story(), header()
	got, headers, damage := read(encoded(t, h, want...))
	h.Format = Format
	if diff := cmp.Diff([]*Header{&h}, headers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if damage != (Damage{}) {
		t.Errorf("damage %+v", damage)
	}
}

func TestReader_ReadsEveryPrefix(t *testing.T) {
	values := story()
	data := encoded(t, header(), values...)
	full, _, _ := read(data)
	for n := range len(data) {
		got, _, damage := read(data[:n])
		if last := len(got) - 1; last >= len(full) || last >= 0 && text(t, got[last]) != text(t, full[last]) {
			t.Fatalf("%d of %d bytes: %d values, the last one differs", n, len(data), len(got))
		}
		if damage.Places > 0 || damage.Undecoded > 0 {
			t.Fatalf("%d of %d bytes: %+v", n, len(data), damage)
		}
	}
	for i := range values { // every frame that is complete is read
		part := encoded(t, header(), values[:i+1]...)
		if got, _, damage := read(part); len(got) != i+1 || damage != (Damage{}) {
			t.Errorf("%d values: read %d, %+v", i+1, len(got), damage)
		}
		if got, _, damage := read(append(part, marker, 9, 0, 0, 1)); len(got) != i+1 || damage.Tail != 1 || damage.Bytes != 5 {
			t.Errorf("%d values and a torn frame: read %d, %+v", i+1, len(got), damage)
		}
	}
}

// One flipped bit costs at most the frames up to the next key frame, and changes no value that is
// still read.
func TestReader_ReadsBehindFlippedBit(t *testing.T) {
	values := story()
	data := encoded(t, header(), values...)
	all := map[string]bool{}
	for _, v := range values {
		all[text(t, v)] = true
	}
	// Behind the frames of the pods, and before the next key frame.
	from, to := len(encoded(t, header(), values[:2]...)), len(encoded(t, header(), values[:6]...))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		bit := 8*i + r.IntN(8)
		flipped := bytes.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		got, _, damage := read(flipped)
		if damage == (Damage{}) {
			t.Fatalf("bit %d: undetected", bit)
		}
		for _, v := range got {
			if !all[text(t, v)] {
				t.Fatalf("bit %d: a value that was not written: %s", bit, text(t, v))
			}
		}
		if want := 6; i >= from && i < to && len(got) < want {
			t.Fatalf("bit %d: read %d values, want at least %d", bit, len(got), want)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%T %s", v, b)
}

func TestReader_ContinuesWithNextSegment(t *testing.T) {
	first, second := encoded(t, header(), story()...), encoded(t, header(), quiet(20, time.Minute, 1))
	broken := bytes.Clone(first)
	broken[5]++ // the header
	for name, data := range map[string][]byte{"torn": append(bytes.Clone(first[:len(first)-3]), second...), "no header": append(broken, second...), "zeros": append(append(bytes.Clone(first), make([]byte, 5000)...), second...)} {
		got, _, damage := read(data)
		last, is := got[len(got)-1].(*Check)
		if !is || last.Seq != 20 || damage == (Damage{}) {
			t.Errorf("%s: last value %+v, %+v", name, got[len(got)-1], damage)
		}
	}
}

// The error of a damaged recording has the offset of the first unreadable part. An incomplete last frame is
// no damage.
func TestDamage_HasFirstOffset(t *testing.T) {
	data := encoded(t, header(), story()...)
	var offsets []int64
	r := NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		if !bytes.HasPrefix(data[e.Offset:], e.Frame) {
			t.Fatalf("no entry at byte %d", e.Offset)
		}
		offsets = append(offsets, e.Offset)
	}
	for _, at := range offsets[1 : len(offsets)-1] {
		broken := bytes.Clone(data)
		broken[at+headSize]++
		_, _, damage := read(broken)
		want := fmt.Sprintf("at byte %d", at)
		if err := damage.Err("node.recording"); err == nil || !strings.HasPrefix(err.Error(), "read node.recording: "+want+": ") || !strings.HasSuffix(damage.String(), want) {
			t.Errorf("damage at byte %d: %v, %s", at, err, &damage)
		}
	}
	if _, _, damage := read(data[:len(data)-1]); damage.Err("node.recording") != nil || damage.Tail != 1 {
		t.Errorf("an incomplete last frame: %+v", damage)
	}
}

// The end of an evicted pod has the resource that it was evicted for, and any other end has none.
func TestEnd_HasResource(t *testing.T) {
	for s := range signals.All {
		r := s.Definition().Resource
		if e := EvictedFor(r); !e.Evicted() || e.Resource() != r || !strings.HasPrefix(e.String(), "evicted for ") {
			t.Errorf("%s: %s, for %q", r, e, e.Resource())
		}
	}
	for e, evicted := range map[End]bool{EndUnknown: false, Ended: false, Deleted: false, EndEvicted: true, EvictedForLimit: true, EvictedFor("cpu"): true} {
		if e.Evicted() != evicted || e.Resource() != "" {
			t.Errorf("%s: evicted %t, for %q", e, e.Evicted(), e.Resource())
		}
	}
}

func TestReader_SkipsLaterFormat(t *testing.T) {
	text := `{"format":2,"started":"2026-03-01T12:00:00Z"}`
	later, _ := seal(append(begin(nil, kindHeader), text...), 0)
	frame, _ := seal(append(begin(nil, kindCheck), "whatever"...), 0)
	got, headers, damage := read(append(append(later, frame...), encoded(t, header(), quiet(1, 0, 1))...))
	if len(got) != 1 || len(headers) != 1 || damage.LaterFormat != 1 || damage.Undecoded != 1 || !damage.Any() {
		t.Errorf("read %d values, %d headers, %+v", len(got), len(headers), damage)
	}
}

// A pod with thousands of containers is stored without them, and its usage is complete.
func TestEncoder_BoundsPods(t *testing.T) {
	a, b := pod("a"), pod("b")
	for i := range 5000 {
		a.Containers = append(a.Containers, signals.Container{Name: fmt.Sprintf("container-%d", i)})
	}
	b.Name = strings.Repeat("n", 2*maxPodJSON)
	c := acting(1, 0, a, pod("c"))
	c.Act.Measured[0][0].Usage.Containers[0].Name = "container-9"
	data := encoded(t, header(), c, usage(time.Second, a))
	got, _, damage := read(data)
	if len(got) != 2 || damage != (Damage{}) {
		t.Fatalf("read %d values, %+v", len(got), damage)
	}
	stored := got[0].(*Check).Act.Measured[0][0]
	if stored.Pod.UID != a.UID || stored.Pod.Containers != nil || stored.Usage.Containers[0].Name != "container-9" || !got[0].(*Check).Cut {
		t.Errorf("stored %+v", stored)
	}
	got, _, damage = read(encoded(t, header(), usage(time.Second, b, pod("c"))))
	if u, is := got[0].(*Usage); damage != (Damage{}) || !is || len(u.Pods) != 1 || u.Pods[0].Pod.Name != "c" {
		t.Errorf("a name of %d bytes: %+v, %+v", len(b.Name), got, damage)
	}
	paths := pod("d") // they do not decide
	for i := range 2000 {
		paths.HostPaths = append(paths.HostPaths, fmt.Sprintf("/a/directory/with/a/long/name/%d", i))
	}
	got, _, _ = read(encoded(t, header(), acting(1, 0, paths, pod("c"))))
	c, _ = got[0].(*Check)
	if p := c.Act.Measured[0][0].Pod; c.Cut || p.HostPaths != nil || len(p.Containers) != 2 {
		t.Errorf("%d paths of hostPaths: cut %t, %+v", len(paths.HostPaths), c.Cut, p)
	}
}

// A value with its new pods is within its limit, whatever pods there are. The pod that was evicted is in
// it, and ordinary pods beside large ones are whole.
func TestEncoder_BoundsValues(t *testing.T) {
	var large, many []*signals.Pod
	for i := range 300 {
		p := pod(fmt.Sprint("large-", i))
		for j := range 300 {
			p.Containers = append(p.Containers, signals.Container{Name: fmt.Sprintf("%063d", j)})
		}
		large = append(large, p)
	}
	for i := range 20_000 {
		many = append(many, pod(fmt.Sprint("pod-", i)))
	}
	ordinary := many[:50]
	for about, tc := range map[string]struct {
		pods  []*signals.Pod
		least int // pods that are stored
	}{"large": {append(slices.Clone(large), ordinary...), 350}, "many": {many, 300}} {
		for _, limit := range []int{1<<20 - 3000, 4<<20 - 3000} {
			c := acting(1, 0, tc.pods[0], tc.pods[1])
			var measured []signals.Candidate
			for _, p := range tc.pods {
				measured = append(measured, signals.Candidate{Pod: p, Usage: c.Act.Measured[0][0].Usage})
			}
			c.Act.Measured, c.Act.Ranking, c.Act.Evicted.Pod = [][]signals.Candidate{measured}, tc.pods, tc.pods[len(tc.pods)-1]
			e := NewEncoder(header())
			e.Limit(limit)
			from, _ := e.Header(nil)
			data := from
			late := acting(2, time.Second, pod("late"), tc.pods[0])
			for i, value := range []any{c, usage(time.Second, tc.pods...), c, late} {
				before, ok := len(data), false
				switch v := value.(type) {
				case *Check:
					data, ok = e.Check(data, v)
				case *Usage:
					data, ok = e.Usage(data, v)
				}
				if !ok || len(data)-before > limit {
					t.Errorf("%s, limit %d: value %d has %d bytes, %t", about, limit, i, len(data)-before, ok)
				}
			}
			got, _, damage := read(data)
			first, is := got[0].(*Check)
			if len(got) != 4 || damage != (Damage{}) || !is || !first.Cut || first.Act.Evicted == nil || first.Act.Evicted.Pod.UID != c.Act.Evicted.Pod.UID {
				t.Fatalf("%s, limit %d: read %d values, %+v, %+v", about, limit, len(got), damage, first)
			}
			if last, is := got[3].(*Check); !is || last.Act.Evicted == nil || last.Act.Evicted.Pod.Name != "late" {
				t.Errorf("%s, limit %d: the eviction of a pod that has come last is missing: %+v", about, limit, got[3])
			}
			whole := 0
			for _, m := range first.Act.Measured[0] {
				if len(m.Pod.Containers) == 2 {
					whole++
				}
			}
			if n := len(first.Act.Measured[0]); n < tc.least || whole < len(ordinary) {
				t.Errorf("%s, limit %d: %d pods are stored, %d of them whole", about, limit, n, whole)
			}
		}
	}
}

// What was decided is stored if the measurements are too large for a frame.
func TestEncoder_CutsLargeMeasurements(t *testing.T) {
	a, b := pod("a"), pod("b")
	c := acting(1, 0, a, b)
	large := *c.Act.Measured[0][0].Usage
	for i := range maxParts {
		large.Containers = append(large.Containers, signals.ContainerUsage{Name: fmt.Sprint("container-", i)})
	}
	c.Act.Measured = [][]signals.Candidate{slices.Repeat([]signals.Candidate{{Pod: a, Usage: &large}}, 200)}
	got, _, damage := read(encoded(t, header(), quiet(0, 0, 1), c, quiet(2, time.Second, 1)))
	if len(got) != 3 || damage != (Damage{}) {
		t.Fatalf("read %d values, %+v", len(got), damage)
	}
	stored, is := got[1].(*Check)
	if !is || !stored.Cut || len(stored.Act.Measured)+len(stored.Act.Ranking) != 0 || stored.Act.Evicted.Pod.UID != a.UID || stored.Act.Blocks[1] != c.Act.Blocks[1] {
		t.Errorf("%+v", got[1])
	}
}

// A usage without room for its pods says that they are missing.
func TestEncoder_MarksUsageWithoutAllPods(t *testing.T) {
	for _, room := range []bool{true, false} {
		e := NewEncoder(header())
		b, _ := e.Header(nil)
		if !room {
			e.podBytes = e.podLimit
		}
		with, ok := e.Usage(b, &Usage{At: at(0), Pods: []PodUsage{{Pod: &signals.Pod{UID: "uid-a", Namespace: "shop", Name: "a"}}}})
		if !ok {
			t.Fatal("not encoded")
		}
		values, _, damage := read(with)
		got, is := values[len(values)-1].(*Usage)
		if !is || got.Cut == room || (len(got.Pods) == 1) != room || damage != (Damage{}) {
			t.Errorf("room %t: %+v, %+v", room, got, damage)
		}
	}
}

// The memory that a reader needs for pods is bounded: JSON takes many times its size when it is decoded.
func TestReader_BoundsPods(t *testing.T) {
	one := func(n, size int) []byte {
		o := output{b: begin(nil, kindPod)}
		o.uvarint(uint64(n))
		o.b = append(o.b, `{"Name":"`+strings.Repeat("n", size-20)+`"}`...)
		frame, _ := seal(o.b, 0)
		return frame
	}
	data := encoded(t, header())
	if _, _, damage := read(append(bytes.Clone(data), one(1, 2*maxPodJSON)...)); damage.Undecoded != 1 {
		t.Errorf("a pod of %d bytes was decoded: %+v", 2*maxPodJSON, damage)
	}
	count := maxPodBytes/maxPodJSON + 10
	for n := range count {
		data = append(data, one(n, maxPodJSON)...)
	}
	if _, _, damage := read(data); damage.Undecoded < 5 || damage.Undecoded > 20 {
		t.Errorf("of %d large pods %d were not decoded", count, damage.Undecoded)
	}
}

func TestEncoder_RejectsTooLargeFrames(t *testing.T) {
	e := NewEncoder(header())
	b, _ := e.Header(nil)
	large := &Decision{At: at(0), Line: json.RawMessage(`"` + strings.Repeat("x", MaxPayload) + `"`)}
	with, ok := e.Decision(b, large)
	if ok || len(with) != len(b) {
		t.Errorf("a payload of %d bytes: %t, %d bytes appended", MaxPayload, ok, len(with)-len(b))
	}
	c := key(quiet(1, 0, 1))
	c.State = make([]byte, MaxPayload)
	if with, ok = e.Check(b, c); ok || len(with) != len(b) {
		t.Errorf("a state of %d bytes: %t, %d bytes appended", MaxPayload, ok, len(with)-len(b))
	}
	if with, ok = e.Check(b, quiet(2, time.Second, 1)); !ok { // absolute: the one before was not stored
		t.Fatal("not encoded")
	}
	if got, _, damage := read(with); len(got) != 1 || damage != (Damage{}) {
		t.Errorf("read %d values, %+v", len(got), damage)
	}
}

// Random values in random order survive, with key frames anywhere.
func TestRecording_RandomStories(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		pods := make([]*signals.Pod, 8)
		for i := range pods {
			pods[i] = pod(fmt.Sprint(i))
		}
		var want []any
		var now time.Duration
		for i := range 1 + r.IntN(40) {
			now += time.Duration(r.Int64N(int64(time.Minute)))
			switch r.IntN(6) {
			case 0:
				want = append(want, acting(uint64(i), now, pods[r.IntN(8)], pods[r.IntN(8)]))
			case 1:
				u := usage(now, pods[:r.IntN(8)]...)
				for j := range u.Pods {
					u.Pods[j].Values[r.IntN(int(ValueCount))] = r.Int64() - r.Int64()
				}
				want = append(want, u)
			case 2:
				want = append(want, key(quiet(uint64(i), now, signals.Amount(r.Int64()-r.Int64()))))
			case 3:
				changed := *pods[r.IntN(8)]
				changed.Priority = r.Int32()
				pods[r.IntN(8)] = &changed
			default:
				want = append(want, quiet(uint64(i), now, signals.Amount(r.Int64())))
			}
		}
		got, _, damage := read(encoded(t, header(), want...))
		if diff := cmp.Diff(want, got); diff != "" || damage != (Damage{}) {
			t.Fatalf("seed %d: %+v\n%s", seed, damage, diff)
		}
	}
}

func FuzzReader(f *testing.F) {
	data := encoded(f, header(), story()...)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(append(bytes.Clone(data), data...))
	f.Add(bytes.Repeat([]byte{marker, 1, 0, 0}, 1000))
	f.Fuzz(func(t *testing.T, data []byte) {
		read(data)
		// The same bytes as payloads of valid frames: the decoder is reached without the right checksum.
		for k := kindHeader; k <= kindDecision; k++ {
			if frame, ok := seal(append(begin(nil, k), data...), 0); ok {
				read(append(encoded(t, header(), story()[:2]...), frame...))
			}
		}
	})
}

// Input that looks like frames everywhere is searched in bounded time.
func TestReader_BoundsSearch(t *testing.T) {
	data := bytes.Repeat([]byte{marker, 0xFF, 0xFF, 0x0F}, 1<<20) // each claims nearly 1 MiB
	begun := time.Now()
	values, _, damage := read(data)
	if len(values) != 0 || damage.Bytes != int64(len(data)) || time.Since(begun) > 30*time.Second {
		t.Errorf("read %d values in %s, %+v", len(values), time.Since(begun), damage)
	}
}

func BenchmarkEncoder_QuietCheck(b *testing.B) {
	e, buf := NewEncoder(header()), make([]byte, 0, 1<<16)
	b.ReportAllocs()
	n := 0
	for i := 0; b.Loop(); i++ {
		with, _ := e.Check(buf[:0], quiet(uint64(i), time.Duration(i)*time.Second, signals.Amount(i<<12)))
		n = len(with)
	}
	b.ReportMetric(float64(n), "bytes/check")
}
