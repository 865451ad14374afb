package gc

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

func box(id, uid string, ready bool, age time.Duration) cri.Sandbox {
	return cri.Sandbox{ID: id, UID: uid, Ready: ready, Created: start.Add(-age)}
}

func TestDeadSandboxes_SelectsGarbage(t *testing.T) {
	const h = time.Hour
	pods := known{"p": Active, "ended": Ended, "evicted": Evicted}
	for name, tc := range map[string]struct {
		all        []cri.Sandbox
		containers []cri.Container
		pressed    bool
		want       []string
	}{
		"newest of a pod":                 {[]cri.Sandbox{box("1", "p", false, h)}, nil, true, nil},
		"older ones, the oldest first":    {[]cri.Sandbox{box("new", "p", false, h), box("mid", "p", false, 2*h), box("old", "p", false, 3*h)}, nil, false, []string{"old", "mid"}},
		"older one beside a ready newest": {[]cri.Sandbox{box("old", "p", false, 2*h), box("new", "p", true, h)}, nil, false, []string{"old"}},
		"older one that is ready":         {[]cri.Sandbox{box("old", "p", true, 2*h), box("new", "p", false, h)}, nil, true, nil},
		"sandbox with a container":        {[]cri.Sandbox{box("1", "gone", false, h)}, []cri.Container{{SandboxID: "1"}}, true, nil},
		"gone pod":                        {[]cri.Sandbox{box("1", "gone", false, h), box("2", "gone", false, 2*h)}, nil, false, []string{"2", "1"}},
		"ready sandbox of a gone pod":     {[]cri.Sandbox{box("1", "gone", true, h)}, nil, true, nil},
		"evicted pod":                     {[]cri.Sandbox{box("1", "evicted", false, h)}, nil, false, []string{"1"}},
		"newest of an ended pod":          {[]cri.Sandbox{box("1", "ended", false, h)}, nil, false, nil},
		"ended pod under pressure":        {[]cri.Sandbox{box("1", "ended", false, h)}, nil, true, []string{"1"}},
		"no pod UID":                      {[]cri.Sandbox{box("1", "", false, h), box("2", "", false, 2*h)}, nil, true, nil},
		"unknown age":                     {[]cri.Sandbox{{ID: "1", UID: "p"}, box("2", "p", true, h)}, nil, true, nil},
		"unknown age in a gone pod":       {[]cri.Sandbox{{ID: "1", UID: "gone"}}, nil, false, []string{"1"}},
		"several pods":                    {[]cri.Sandbox{box("1", "gone", false, h), box("2", "p", false, 9*h)}, nil, false, []string{"1"}},
		"equal creation times":            {[]cri.Sandbox{{ID: "1", UID: "p", Attempt: 1, Created: start}, {ID: "2", UID: "p", Attempt: 0, Created: start}}, nil, false, []string{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ids(deadSandboxes(tc.all, tc.containers, pods.of, tc.pressed), func(s cri.Sandbox) string { return s.ID })
			if !slices.Equal(got, append([]string{}, tc.want...)) {
				t.Errorf("got removals %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOfPod_FindsObjectsByUIDOrSandbox(t *testing.T) {
	sandboxes, containers := ofPod("p",
		[]cri.Sandbox{{ID: "s1", UID: "p"}, {ID: "s2", UID: "q"}, {ID: "s3"}},
		[]cri.Container{{ID: "labelled", PodUID: "p", SandboxID: "lost"}, {ID: "inside", SandboxID: "s1"}, {ID: "other", PodUID: "q", SandboxID: "s2"}, {ID: "no-pod", SandboxID: "s3"}})
	if got := ids(sandboxes, func(s cri.Sandbox) string { return s.ID }); !slices.Equal(got, []string{"s1"}) {
		t.Errorf("got sandboxes %v, want s1", got)
	}
	if got := ids(containers, containerID); !slices.Equal(got, []string{"labelled", "inside"}) {
		t.Errorf("got containers %v, want labelled and inside", got)
	}
}

func TestGoneLogs_SelectsRemovedPods(t *testing.T) {
	tree := fstest.MapFS{
		"ns_a_gone/c/0.log": {}, "ns_b_active/c/0.log": {}, "ns_c_ended/c/0.log": {}, "ns_d_boxed/x": {}, "ns_e_contained/x": {},
		"ns_f_file": {}, "two_parts/x": {}, "a_b_c_d/x": {}, "_b_gone/x": {}, "a__gone/x": {}, "a_b_/x": {},
	}
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	got := goneLogs(entries, []cri.Sandbox{{UID: "boxed"}}, []cri.Container{{PodUID: "contained"}}, known{"active": Active, "ended": Ended}.of)
	if !slices.Equal(got, []string{"ns_a_gone"}) {
		t.Errorf("got removals %v, want ns_a_gone", got)
	}
}
