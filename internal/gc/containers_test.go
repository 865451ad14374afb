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

// asInKubelet are the kubelet's limits.
var asInKubelet = Options{MaximumDeadPerContainer: 1, MaximumDead: -1}

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

// containerCase is a list of containers, and those to remove, in order.
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
				t.Errorf("removes %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhatTheLimitsKeep(t *testing.T) {
	const h = time.Hour
	three := []cri.Container{exited("new", "p", "a", h), exited("old", "p", "a", 3*h), exited("mid", "p", "a", 2*h)}
	checkContainers(t, map[string]containerCase{
		"the newest of a container stays, the oldest goes first": {three, active, asInKubelet, false, []string{"old", "mid"}},
		"so it is under pressure":                                {three, active, asInKubelet, true, []string{"old", "mid"}},
		"none is kept of a container":                            {three, active, limits(0, -1), false, []string{"old", "mid", "new"}},
		"any number is kept of a container":                      {three, active, limits(-1, -1), false, nil},
		"the limit of a container is not reached":                {three, active, limits(3, -1), false, nil},
		"equal names in two pods are two containers":             {[]cri.Container{exited("1", "p", "a", h), exited("2", "q", "a", h)}, active, asInKubelet, false, nil},
		"two names in one pod are two containers":                {[]cri.Container{exited("1", "p", "a", h), exited("2", "p", "b", h)}, active, asInKubelet, false, nil},
		"the limit of the node is shared equally": {
			[]cri.Container{exited("p1", "p", "a", 5*h), exited("p2", "p", "a", 4*h), exited("p3", "p", "a", 3*h), exited("q1", "q", "a", 9*h), exited("q2", "q", "a", 8*h)},
			active, limits(-1, 4), false, []string{"p1"}},
		"the limit of the node is below one each: the oldest goes": {
			[]cri.Container{exited("1", "p", "a", 3*h), exited("2", "q", "a", 4*h), exited("3", "r", "a", 2*h)},
			active, limits(1, 2), false, []string{"2"}},
		"a limit of none on the node": {
			[]cri.Container{exited("1", "p", "a", 3*h), exited("2", "q", "a", 4*h)}, active, limits(1, 0), false, []string{"2", "1"}},
		"limits work one after the other": {
			[]cri.Container{exited("1", "p", "a", 9*h), exited("2", "p", "a", 8*h), exited("3", "p", "a", 7*h), exited("4", "q", "a", 1*h), exited("5", "q", "a", 2*h)},
			active, limits(2, 2), false, []string{"1", "2", "5"}},
		"made at one moment, attempts decide": {
			[]cri.Container{{ID: "1", PodUID: "p", Name: "a", State: cri.Exited, Attempt: 2, Created: start.Add(-h)}, {ID: "2", PodUID: "p", Name: "a", State: cri.Exited, Attempt: 1, Created: start.Add(-h)}},
			active, asInKubelet, false, []string{"2"}},
	})
}

func TestWhichContainersAreWaste(t *testing.T) {
	const h = time.Hour
	checkContainers(t, map[string]containerCase{
		"what runs stays, and does not count": {
			[]cri.Container{aged("run", "p", "a", cri.Running, h), exited("1", "p", "a", 2*h), exited("2", "p", "a", 3*h)},
			active, asInKubelet, false, []string{"2"}},
		"what runs stays though the pod is gone": {
			[]cri.Container{aged("run", "x", "a", cri.Running, h)}, active, limits(0, 0), true, nil},
		"what is too young stays, gone pod or not": {
			[]cri.Container{exited("1", "x", "a", 59*time.Second), exited("2", "x", "a", time.Minute), exited("3", "p", "a", time.Second)},
			active, Options{MinimumContainerTTL: time.Minute}, true, []string{"2"}},
		"all of a gone pod go": {
			[]cri.Container{exited("1", "x", "a", h), exited("2", "x", "b", 2*h)}, active, asInKubelet, false, []string{"2", "1"}},
		"all of an evicted pod go": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Evicted}, asInKubelet, false, []string{"1"}},
		"those of an ended pod stay for their logs": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Ended}, asInKubelet, false, nil},
		"those of an ended pod go under pressure": {
			[]cri.Container{exited("1", "x", "a", h)}, known{"x": Ended}, asInKubelet, true, []string{"1"}},
		"those of gone pods go before those above a limit": {
			[]cri.Container{exited("1", "p", "a", 9*h), exited("2", "p", "a", 8*h), exited("3", "x", "a", h)}, active, asInKubelet, false, []string{"3", "1"}},
		"unknown state is not running": {
			[]cri.Container{aged("1", "x", "a", cri.UnknownState, h)}, active, asInKubelet, false, []string{"1"}},
		"what was just created is about to start": {
			[]cri.Container{aged("1", "p", "a", cri.Created, time.Second), aged("2", "p", "a", cri.Created, h)}, active, limits(0, -1), false, []string{"2"}},
		"what was just created of a gone pod will not start": {
			[]cri.Container{aged("1", "x", "a", cri.Created, time.Second)}, active, limits(0, -1), false, []string{"1"}},
		"what is of no pod is of somebody else": {
			[]cri.Container{exited("1", "", "a", h)}, active, limits(0, 0), true, nil},
		"one of unknown age may be the newest": {
			[]cri.Container{{ID: "1", PodUID: "p", Name: "a", State: cri.Exited}, exited("2", "p", "a", h), exited("3", "p", "a", 2*h)}, active, asInKubelet, false, []string{"3"}},
		"unknown age does not save a gone pod's": {
			[]cri.Container{{ID: "1", PodUID: "x", Name: "a", State: cri.Exited}}, active, asInKubelet, false, []string{"1"}},
	})
}
