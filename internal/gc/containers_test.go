package gc

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// aged returns a container of a pod, created the given time before start.
func aged(id, uid, name string, state cri.State, age time.Duration) cri.Container {
	return cri.Container{ID: id, PodUID: uid, Name: name, State: state, Created: start.Add(-age)}
}

func exited(id, uid, name string, age time.Duration) cri.Container {
	return aged(id, uid, name, cri.Exited, age)
}

// known are owners with these pods.
type known map[string]PodState

func (k known) of(uid string) PodState { return k[uid] }

// kubeletLimits are the kubelet's limits.
var kubeletLimits = Options{MaximumDeadPerContainer: 1, MaximumDead: -1}

func ids[T any](things []T, id func(T) string) []string {
	out := []string{}
	for _, thing := range things {
		out = append(out, id(thing))
	}
	return out
}

func containerID(k cri.Container) string { return k.ID }

var active = known{"p": Active, "q": Active, "r": Active}

func limits(per, all int) Options {
	return Options{MaximumDeadPerContainer: per, MaximumDead: all}
}

// containerCase is a list of containers with the expected removals, in order.
type containerCase struct {
	all     []cri.Container
	pods    known
	options Options
	pressed bool
	want    []string
}

func checkContainers(t *testing.T, cases map[string]containerCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ids(deadContainers(tc.all, tc.pods.of, &tc.options, start, tc.pressed), containerID)
			if !slices.Equal(got, append([]string{}, tc.want...)) {
				t.Errorf("got removals %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDeadContainers_KeepsNewestWithinLimits(t *testing.T) {
	const h = time.Hour
	three := []cri.Container{exited("new", "p", "a", h), exited("old", "p", "a", 3*h), exited("mid", "p", "a", 2*h)}
	checkContainers(t, map[string]containerCase{
		"limit per container":                {three, active, kubeletLimits, false, []string{"old", "mid"}},
		"limit per container under pressure": {three, active, kubeletLimits, true, []string{"old", "mid"}},
		"limit per container 0":              {three, active, limits(0, -1), false, []string{"old", "mid", "new"}},
		"unlimited per container":            {three, active, limits(-1, -1), false, nil},
		"limit per container not reached":    {three, active, limits(3, -1), false, nil},
		"equal names in two pods":            {[]cri.Container{exited("1", "p", "a", h), exited("2", "q", "a", h)}, active, kubeletLimits, false, nil},
		"two names in one pod":               {[]cri.Container{exited("1", "p", "a", h), exited("2", "p", "b", h)}, active, kubeletLimits, false, nil},
		"equal shares of the node limit": {
			[]cri.Container{exited("p1", "p", "a", 5*h), exited("p2", "p", "a", 4*h), exited("p3", "p", "a", 3*h), exited("q1", "q", "a", 9*h), exited("q2", "q", "a", 8*h)},
			active, limits(-1, 4), false, []string{"p1"}},
		"node limit below one per container": {
			[]cri.Container{exited("1", "p", "a", 3*h), exited("2", "q", "a", 4*h), exited("3", "r", "a", 2*h)},
			active, limits(1, 2), false, []string{"2"}},
		"node limit 0": {
			[]cri.Container{exited("1", "p", "a", 3*h), exited("2", "q", "a", 4*h)}, active, limits(1, 0), false, []string{"2", "1"}},
		"limit per container before node limit": {
			[]cri.Container{exited("1", "p", "a", 9*h), exited("2", "p", "a", 8*h), exited("3", "p", "a", 7*h), exited("4", "q", "a", 1*h), exited("5", "q", "a", 2*h)},
			active, limits(2, 2), false, []string{"1", "2", "5"}},
		"equal creation times": {
			[]cri.Container{{ID: "1", PodUID: "p", Name: "a", State: cri.Exited, Attempt: 2, Created: start.Add(-h)}, {ID: "2", PodUID: "p", Name: "a", State: cri.Exited, Attempt: 1, Created: start.Add(-h)}},
			active, kubeletLimits, false, []string{"2"}},
	})
}

func TestDeadContainers_SelectsGarbage(t *testing.T) {
	const h = time.Hour
	checkContainers(t, map[string]containerCase{
		"running container not counted": {
			[]cri.Container{aged("run", "p", "a", cri.Running, h), exited("1", "p", "a", 2*h), exited("2", "p", "a", 3*h)},
			active, kubeletLimits, false, []string{"2"}},
		"running container of a gone pod": {
			[]cri.Container{aged("run", "x", "a", cri.Running, h)}, active, limits(0, 0), true, nil},
		"below minimum TTL": {
			[]cri.Container{exited("1", "x", "a", 59*time.Second), exited("2", "x", "a", time.Minute), exited("3", "p", "a", time.Second)},
			active, Options{MinimumContainerTTL: time.Minute}, true, []string{"2"}},
		"gone pod": {
			[]cri.Container{exited("1", "x", "a", h), exited("2", "x", "b", 2*h)}, active, kubeletLimits, false, []string{"2", "1"}},
		"evicted pod": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Evicted}, kubeletLimits, false, []string{"1"}},
		"ended pod, logs retained": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Ended}, kubeletLimits, false, nil},
		"ended pod under pressure": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Ended}, kubeletLimits, true, []string{"1"}},
		"gone pods before surplus": {
			[]cri.Container{exited("1", "p", "a", 9*h), exited("2", "p", "a", 8*h), exited("3", "x", "a", h)}, active, kubeletLimits, false, []string{"3", "1"}},
		"unknown state": {
			[]cri.Container{aged("1", "x", "a", cri.UnknownState, h)}, active, kubeletLimits, false, []string{"1"}},
		"created, about to start": {
			[]cri.Container{aged("1", "p", "a", cri.Created, time.Second), aged("2", "p", "a", cri.Created, h)}, active, limits(0, -1), false, []string{"2"}},
		"created container of a gone pod": {
			[]cri.Container{aged("1", "x", "a", cri.Created, time.Second)}, active, limits(0, -1), false, []string{"1"}},
		"no pod UID": {
			[]cri.Container{exited("1", "", "a", h)}, active, limits(0, 0), true, nil},
		"unknown age": {
			[]cri.Container{{ID: "1", PodUID: "p", Name: "a", State: cri.Exited}, exited("2", "p", "a", h), exited("3", "p", "a", 2*h)}, active, kubeletLimits, false, []string{"3"}},
		"unknown age in a gone pod": {
			[]cri.Container{{ID: "1", PodUID: "x", Name: "a", State: cri.Exited}}, active, kubeletLimits, false, []string{"1"}},
	})
}
