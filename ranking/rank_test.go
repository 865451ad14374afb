package ranking_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

const everywhere = signals.Rootfs | signals.Logs | signals.LocalVolumes

// pod is a row of a table.
type pod struct {
	name     string
	priority int32
	request  int64
	used     int64
	noStats  bool
}

// candidate sets the used figure for the resource under test.
func (p pod) candidate(s signals.Signal) signals.Candidate {
	request := signals.Quantity{Value: signals.Amount(p.request)}
	c := signals.Candidate{Pod: &signals.Pod{UID: "uid-" + p.name, Namespace: "default", Name: p.name, Priority: p.priority}}
	if s.Definition().Resource == signals.Memory {
		c.Pod.MemoryRequest = request
	} else {
		c.Pod.StorageRequest = request
	}
	if p.noStats {
		return c
	}
	c.Usage = &signals.Usage{
		Memory: signals.Of(signals.Bytes(p.used)), Processes: signals.Of(signals.PIDs(p.used)),
		Containers: []signals.ContainerUsage{{Name: "app", Rootfs: signals.FilesystemUsage{
			Bytes: signals.Of(signals.Bytes(p.used)), Inodes: signals.Of(signals.Inodes(p.used))}}},
	}
	return c
}

func TestRank_OrderPerSignal(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		signal signals.Signal
		pods   []pod // in the expected order
	}{
		{"memory: above the request before any priority", signals.MemoryAvailable, []pod{
			{name: "b", priority: 1000, request: 100, used: 101}, {name: "a", priority: -5, request: 100, used: 100}}},
		{"memory: lower priority before more above the request", signals.AllocatableMemoryAvailable, []pod{
			{name: "b", priority: 1, request: 0, used: 10}, {name: "a", priority: 2, request: 0, used: 10_000}}},
		{"memory: more above the request, not more used", signals.MemoryAvailable, []pod{
			{name: "b", request: 100, used: 300}, {name: "a", request: 1000, used: 1100}}},
		{"memory: nearest to the request if all are within", signals.MemoryAvailable, []pod{
			{name: "b", request: 100, used: 90}, {name: "a", request: 1000, used: 500}}},
		{"memory: unmeasured pod first", signals.MemoryAvailable, []pod{
			{name: "z", priority: 9, request: 1 << 40, noStats: true}, {name: "a", used: 1 << 40}}},
		{"memory: unmeasured pods by priority, then UID", signals.MemoryAvailable, []pod{
			{name: "z", priority: 1, noStats: true}, {name: "a", priority: 2, noStats: true}, {name: "b", priority: 2, noStats: true}}},
		{"memory: equal pods by UID", signals.MemoryAvailable, []pod{
			{name: "a", used: 5}, {name: "b", used: 5}, {name: "c", used: 5}}},
		{"disk: above the request, priority, more above it", signals.NodefsAvailable, []pod{
			{name: "d", priority: 9, request: 10, used: 11}, {name: "c", priority: 1, request: 100, used: 90},
			{name: "b", priority: 2, request: 100, used: 90}, {name: "a", priority: 2, request: 100, used: 80}}},
		{"inodes: any usage, priority, more usage; no byte requests", signals.NodefsInodesFree, []pod{
			{name: "d", priority: 1, request: 1 << 40, used: 2}, {name: "c", priority: 1, used: 1},
			{name: "b", priority: 2, used: 1 << 40}, {name: "a", priority: 0, used: 0}}},
		{"pids: priority first", signals.PIDAvailable, []pod{
			{name: "c", priority: 1, used: 1}, {name: "b", priority: 2, noStats: true},
			{name: "d", priority: 2, used: 50}, {name: "a", priority: 2, used: 3}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var candidates []signals.Candidate
			var want []string
			for _, p := range tc.pods {
				want = append(want, p.name)
				candidates = append(candidates, p.candidate(tc.signal))
			}
			slices.Reverse(candidates)
			if got := namesOf(ranking.Rank(candidates, tc.signal, everywhere)); !slices.Equal(got, want) {
				t.Errorf("ranked %v, want %v", got, want)
			}
		})
	}
}

func namesOf(ranked []ranking.Ranked) []string {
	var names []string
	for i := range ranked {
		names = append(names, ranked[i].Pod.Name)
	}
	return names
}

// storage returns a pod with files in every place, each with a different amount.
func storage() signals.Candidate {
	fs := func(n int64) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(n)), Inodes: signals.Of(signals.Inodes(n * 10))}
	}
	return signals.Candidate{
		Pod: &signals.Pod{Name: "p", UID: "p", Volumes: []signals.Volume{{Name: "scratch", Local: true}, {Name: "tmpfs"}, {Name: "unmeasured", Local: true}}},
		Usage: &signals.Usage{
			Containers: []signals.ContainerUsage{
				{Name: "a", Rootfs: fs(1), Logs: fs(10)},
				{Name: "b", Rootfs: fs(2), Logs: signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(20))}},
			},
			Volumes: []signals.VolumeUsage{{Name: "scratch", FilesystemUsage: fs(100)}, {Name: "tmpfs", FilesystemUsage: fs(1000)}, {Name: "unknown", FilesystemUsage: fs(5000)}},
		},
	}
}

func TestRank_CountsOnlyGivenStorage(t *testing.T) {
	for _, tc := range []struct {
		signal  signals.Signal
		measure signals.Storage
		want    signals.Amount
	}{
		{signals.NodefsAvailable, everywhere, 1 + 2 + 10 + 20 + 100},
		{signals.NodefsAvailable, signals.Logs | signals.LocalVolumes, 10 + 20 + 100},
		{signals.ImagefsAvailable, signals.Rootfs, 3},
		{signals.ImagefsAvailable, 0, 0},
		{signals.NodefsInodesFree, everywhere, 10 + 20 + 100 + 1000},
		{signals.ImagefsInodesFree, signals.Rootfs, 30},
	} {
		ranked := ranking.Rank([]signals.Candidate{storage()}, tc.signal, tc.measure)
		if got := ranked[0].Key.Usage; got != tc.want {
			t.Errorf("%s measuring %b: %d, want %d", tc.signal, tc.measure, got, tc.want)
		}
	}
}

// Many files do not hide a large one: with equal priority, a pod with an incomplete measurement
// is ranked first.
func TestRank_IncompleteBeforeCompleteOfSamePriority(t *testing.T) {
	with := func(name string, priority int32, request, used int64, incomplete string) signals.Candidate {
		c := pod{name: name, priority: priority, request: request, used: used}.candidate(signals.NodefsAvailable)
		c.Usage.Containers[0].Rootfs.Incomplete = incomplete
		return c
	}
	for _, s := range []signals.Signal{signals.NodefsAvailable, signals.NodefsInodesFree} {
		candidates := []signals.Candidate{with("hog", 0, 0, 43, "cut"), with("plain", 0, 0, 100, ""), with("hidden", 0, 0, 0, "hangs"),
			with("important", 5, 0, 500, "cut"), with("empty", 0, 0, 0, "")}
		got := namesOf(ranking.Rank(candidates, s, everywhere))
		if want := []string{"hog", "hidden", "plain", "important", "empty"}; !slices.Equal(got, want) {
			t.Errorf("%s: ranked %v, want %v", s, got, want)
		}
	}
	within := []signals.Candidate{with("within", 0, 1000, 43, "cut"), with("above", 0, 10, 11, "")}
	if got := namesOf(ranking.Rank(within, signals.NodefsAvailable, everywhere)); got[0] != "above" {
		t.Errorf("ranked %v, want above first: the counted usage of the other is within its request", got)
	}
	if got := namesOf(ranking.Rank([]signals.Candidate{with("b", 0, 0, 43, "cut"), with("a", 0, 0, 43, "")}, signals.NodefsAvailable, 0)); got[0] != "a" {
		t.Errorf("ranked %v, want a first: storage that does not count is incomplete", got)
	}
}

// A request does not hide a large file below the maximum depth of a walk. A part that no
// measurement counts exceeds the request; a part that the next measurement counts does not yet.
func TestRank_UncountableExceedsAnyRequest(t *testing.T) {
	with := func(name string, uncountable bool) signals.Candidate {
		c := pod{name: name, request: 10 << 20, used: 1 << 20}.candidate(signals.NodefsAvailable)
		c.Usage.Containers[0].Rootfs.Incomplete = "next round"
		c.Usage.Containers[0].Logs.Incomplete, c.Usage.Containers[0].Logs.Uncountable = "too deep", uncountable
		return c
	}
	above := pod{name: "above", used: 5 << 20}.candidate(signals.NodefsAvailable)
	ranked := ranking.Rank([]signals.Candidate{above, with("pending", false), with("hides", true)}, signals.NodefsAvailable, everywhere)
	if got := namesOf(ranked); !slices.Equal(got, []string{"hides", "above", "pending"}) {
		t.Errorf("ranked %v", got)
	}
	if got, want := ranked[0].Key.Reason(), "uses at least 1Mi, assumed above its request of 10Mi, priority 0, measured incompletely (too deep)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestKey_WithOtherFigures(t *testing.T) {
	for _, tc := range []struct {
		about          string
		key            ranking.Key
		usage, request signals.Amount
		exceeds        bool
	}{
		{"a request above the usage", ranking.Key{Usage: 10, Request: 5, Exceeds: true}, 10, 10, false},
		{"a request below the usage", ranking.Key{Usage: 10, Request: 10}, 10, 9, true},
		{"a usage within the request", ranking.Key{Usage: 10, Request: 5, Exceeds: true}, 5, 5, false},
		{"a part that is never counted", ranking.Key{Usage: 10, Request: 5, Exceeds: true, Hidden: true, Incomplete: "too deep"}, 10, 20, true},
		{"a part that is counted later", ranking.Key{Usage: 10, Exceeds: true, Incomplete: "next round"}, 10, 20, false},
		{"a part that is counted later, without a request", ranking.Key{Incomplete: "next round", Request: 1}, 0, 0, true},
		{"nothing measured", ranking.Key{NoStats: true}, 10, 0, false},
	} {
		got := tc.key.With(tc.usage, tc.request, 7)
		want := tc.key
		want.Usage, want.Request, want.Priority, want.Exceeds = tc.usage, tc.request, 7, tc.exceeds
		if got != want {
			t.Errorf("%s: got %+v, want %+v", tc.about, got, want)
		}
	}
}

func TestRank_UnmeasuredUsageCountsZero(t *testing.T) {
	seen := signals.Candidate{Pod: &signals.Pod{Name: "seen", UID: "b"}, Usage: &signals.Usage{}}
	hungry := signals.Candidate{Pod: &signals.Pod{Name: "hungry", UID: "c"}, Usage: &signals.Usage{Memory: signals.Of(signals.Bytes(1))}}
	absent := signals.Candidate{Pod: &signals.Pod{Name: "absent", UID: "d"}}
	got := namesOf(ranking.Rank([]signals.Candidate{seen, hungry, absent}, signals.MemoryAvailable, 0))
	if want := []string{"absent", "hungry", "seen"}; !slices.Equal(got, want) {
		t.Errorf("ranked %v, want %v", got, want)
	}
}

func TestRank_IncludesProtectedPods(t *testing.T) {
	static := pod{name: "static", used: 100}.candidate(signals.MemoryAvailable)
	static.Pod.Protection = signals.Static
	plain := pod{name: "plain", used: 1}.candidate(signals.MemoryAvailable)
	ranked := ranking.Rank([]signals.Candidate{plain, static}, signals.MemoryAvailable, 0)
	if ranked[0].Pod.Name != "static" || ranked[0].Key.Protection != signals.Static {
		t.Errorf("first is %s, %v, want static", ranked[0].Pod.Name, ranked[0].Key)
	}
}

func TestKey_Reason(t *testing.T) {
	for _, tc := range []struct {
		key  ranking.Key
		want string
	}{
		{ranking.Key{Order: ranking.ByMemory, Exceeds: true, Usage: 300 << 20, Request: 100 << 20, Priority: 5},
			"uses 300Mi, 200Mi above its request, priority 5"},
		{ranking.Key{Order: ranking.ByDisk, Usage: 50 << 20, Request: 1 << 30},
			"uses 50Mi, within its request of 1Gi, priority 0"},
		{ranking.Key{Order: ranking.ByDisk, Exceeds: true, Usage: 43 << 20, Incomplete: "its time is over"},
			"uses at least 43Mi, 43Mi above its request, priority 0, measured incompletely (its time is over)"},
		{ranking.Key{Order: ranking.ByInodes, Exceeds: true, Usage: 5000, Priority: -1}, "uses 5k inodes, priority -1"},
		{ranking.Key{Order: ranking.ByPIDs, Exceeds: true, Usage: 12}, "runs 12 processes, priority 0"},
		{ranking.Key{Order: ranking.ByPIDs, Usage: 2, Tasks: 600}, "runs 2 processes with 600 threads, priority 0"},
		{ranking.Key{Order: ranking.ByMemory, NoStats: true, Priority: 7}, "nothing measured, priority 7"},
		{ranking.Key{Order: ranking.ByMemory, Exceeds: true, Usage: 1024, Priority: signals.CriticalPriority, Protection: signals.Critical},
			"uses 1Ki, 1Ki above its request, priority 2000000000, passed over: critical pod"},
		{ranking.Key{Order: ranking.ByPIDs, Exceeds: true, Usage: 12, EvictionPriority: -5, Last: true},
			"runs 12 processes, priority 0, eviction priority -5, asked to go last"},
		{ranking.Key{Order: ranking.ByPIDs, Usage: 1, Protection: signals.OptedOut}, "runs 1 processes, priority 0, passed over: opted out by its annotation"},
		{ranking.Key{Order: ranking.ByPIDs, Usage: 1, Protection: signals.Namespaced}, "runs 1 processes, priority 0, passed over: in a protected namespace"},
		{ranking.Key{Order: ranking.ByPIDs, NoStats: true, Protection: signals.Mirror}, "nothing measured, priority 0, passed over: mirror pod"},
	} {
		if got := tc.key.Reason(); got != tc.want {
			t.Errorf("%+v:\n%s\nwant\n%s", tc.key, got, tc.want)
		}
	}
}

func TestFor_OrderOfEverySignal(t *testing.T) {
	for s := range signals.All {
		want := ranking.ByDisk
		switch {
		case s.OfMemory():
			want = ranking.ByMemory
		case strings.HasSuffix(s.String(), "inodesFree"):
			want = ranking.ByInodes
		case s == signals.PIDAvailable:
			want = ranking.ByPIDs
		}
		if got := ranking.For(s); got != want {
			t.Errorf("%s is ranked by order %d, want %d", s, got, want)
		}
	}
}
