package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// fixtures are trees of plain files in testdata, three pods each.
var fixtures = map[string]Hierarchy{
	"v1-cgroupfs": At(V1, "testdata/v1-cgroupfs"),
	"v1-systemd":  At(V1, "testdata/v1-systemd"),
	"v2-cgroupfs": At(V2, "testdata/v2-cgroupfs"),
	"v2-systemd":  At(V2, "testdata/v2-systemd"),
}

func eachFixture(t *testing.T, test func(t *testing.T, h Hierarchy)) {
	for name, h := range fixtures {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

func TestHierarchy_DirStaysInsideMount(t *testing.T) {
	for _, c := range []struct {
		h          Hierarchy
		path, want string
	}{
		{At(V1, "/cg"), "/", "/cg/memory"},
		{At(V1, "/cg"), "kubepods/podx", "/cg/memory/kubepods/podx"},
		{At(V1, "/cg"), "../../etc", "/cg/memory/etc"},
		{At(V2, "/cg"), "/kubepods", "/cg/kubepods"},
		{At(V2, "/cg"), "/../x", "/cg/x"},
	} {
		if got := c.h.Dir("memory", c.path); got != c.want {
			t.Errorf("%v.Dir(memory, %q) = %q, want %q", c.h, c.path, got, c.want)
		}
	}
}

func TestDetect_NamesMissingMount(t *testing.T) {
	empty := t.TempDir()
	_, err := Detect(empty)
	if err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("Detect of an empty directory: %v", err)
	}
	if _, err := Detect(filepath.Join(empty, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Detect of nothing: %v", err)
	}
	if h, err := Detect("testdata/v1-cgroupfs"); err == nil {
		t.Errorf("Detect returned %v for plain files", h)
	}
}

func TestMemory_ReadsUsageAndLimit(t *testing.T) {
	eachFixture(t, func(t *testing.T, h Hierarchy) {
		root, err := podsRoot(h, "/")
		if err != nil {
			t.Fatal(err)
		}
		m, err := OpenMemory(h, root)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		u, err := m.Read()
		if err != nil || u.Usage != 600*mib || u.InactiveFile != 50*mib || u.WorkingSet() != 550*mib {
			t.Errorf("read %+v, working set %d, %v", u, u.WorkingSet(), err)
		}
		if limit, limited, err := m.Limit(); err != nil || !limited || limit != 800*mib {
			t.Errorf("limit %d, %t, %v, want 800 MiB", limit, limited, err)
		}
	})
}

func TestMemory_ReadsRootWithoutLimit(t *testing.T) {
	eachFixture(t, func(t *testing.T, h Hierarchy) {
		m, err := OpenMemory(h, "/")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		u, err := m.Read()
		if err != nil || u.Usage != 2000*mib || u.InactiveFile != 300*mib {
			t.Errorf("read %+v, %v, want 2000 MiB and 300 MiB inactive", u, err)
		}
		if limit, limited, err := m.Limit(); err != nil || limited {
			t.Errorf("limit %d, %t, %v, want none", limit, limited, err)
		}
		if _, err := m.Usage(); (h.Version == V2) != errors.Is(err, ErrNoUsage) {
			t.Errorf("usage alone: %v", err)
		}
	})
}

func TestPIDs_ReadsCurrentAndMax(t *testing.T) {
	for name, want := range map[string]PIDUsage{"v1-cgroupfs": {12, 100, true}, "v2-systemd": {12, 0, false}} {
		p, err := OpenPIDs(fixtures[name], "/node", NewBuffer())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if got, err := p.Read(); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	if _, err := OpenPIDs(fixtures["v1-cgroupfs"], "/", NewBuffer()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the root: %v, want not exist", err)
	}
}

// podsRoot returns the path of the pods' cgroup below a node's.
func podsRoot(h Hierarchy, node string) (string, error) {
	tree, err := NewPodPlaces(h, node).Open()
	return tree.Root(), err
}

// findPods returns the pods below a node's cgroup.
func findPods(h Hierarchy, node string) ([]Pod, error) {
	tree, err := NewPodPlaces(h, node).Open()
	if err != nil {
		return nil, err
	}
	return tree.Pods()
}

func TestPodTree_ListsAndFindsPods(t *testing.T) {
	eachFixture(t, func(t *testing.T, h Hierarchy) {
		pods, err := findPods(h, "/")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.UID, b.UID) })
		want := []Pod{
			{UID: "0b6d5b4e-9c1f-4c55-8a35-1f0e7f2a9d11", Containers: []Container{{Name: "f3c1d6f0a4b2"}}},
			{UID: "5f1c2c70-3a56-4f0b-9f62-0d2b8a7e4c22", Containers: []Container{{Name: "1c2d3e4f5a6b"}, {Name: "9a7be2c4d5e6"}}},
			{UID: "c4f0a9d2-77e1-4b7d-a3b9-6c5de1f80933", Containers: []Container{}},
		}
		if diff := cmp.Diff(want, pods, cmpopts.IgnoreFields(Pod{}, "Path", "Inode"), cmpopts.IgnoreFields(Container{}, "Path")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		tree, err := NewPodPlaces(h, "/").Open()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			info, err := os.Stat(h.Dir("memory", p.Path))
			if err != nil || !info.IsDir() || p.Inode == 0 {
				t.Errorf("%+v: %v", p, err)
			}
			if uid, ok := ParsePodPath(p.Path); !ok || uid != p.UID {
				t.Errorf("ParsePodPath(%q) = %q, %t", p.Path, uid, ok)
			}
			found, err := tree.Find(p.UID)
			if diff := cmp.Diff(p, found); err != nil || diff != "" {
				t.Errorf("Find %s: %v (-listed +found):\n%s", p.UID, err, diff)
			}
		}
	})
}

func TestPodTree_FindRefusesOtherPaths(t *testing.T) {
	eachFixture(t, func(t *testing.T, h Hierarchy) {
		tree, err := NewPodPlaces(h, "/").Open()
		if err != nil {
			t.Fatal(err)
		}
		for _, uid := range []string{"", "no-such-pod", "..", "/../burstable", "x/../../burstable", "a.slice/.."} {
			if p, err := tree.Find(uid); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Find(%q) = %+v, %v, want not exist", uid, p, err)
			}
		}
	})
}

func TestPodPlaces_OpenFailsWithoutTree(t *testing.T) {
	h := At(V1, t.TempDir())
	if pods, err := findPods(h, "/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("findPods = %v, %v, want not exist", pods, err)
	}
}

// makeDirs creates directories of a fixture.
func makeDirs(t *testing.T, h Hierarchy, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(h.Dir("memory", p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPodTree_ListsPodsOfNodeInSlice(t *testing.T) {
	h := At(V2, t.TempDir())
	pod := "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-poda_1.slice"
	makeDirs(t, h, pod+"/crio-77.scope")
	pods, err := findPods(h, "/kubelet.slice")
	if err != nil || len(pods) != 1 || pods[0].UID != "a-1" || pods[0].Path != pod || pods[0].Containers[0].Name != "77" {
		t.Errorf("findPods = %+v, %v", pods, err)
	}
}

// TestPodPlaces_PrefersNamingWithPods covers both namings, as after a change of the kubelet's
// driver.
func TestPodPlaces_PrefersNamingWithPods(t *testing.T) {
	h := At(V1, t.TempDir())
	makeDirs(t, h, "/kubepods/burstable", "/kubepods.slice/kubepods-podx.slice")
	if root, err := podsRoot(h, "/"); err != nil || root != "/kubepods.slice" {
		t.Errorf("podsRoot = %q, %v, want the tree with a pod", root, err)
	}
	makeDirs(t, h, "/kubepods/burstable/pody")
	if root, err := podsRoot(h, "/"); err != nil || root != "/kubepods" {
		t.Errorf("podsRoot = %q, %v, want /kubepods", root, err)
	}
}

func TestCountProcs_CountsProcesses(t *testing.T) {
	h := fixtures["v1-cgroupfs"]
	path := "/kubepods/burstable/pod5f1c2c70-3a56-4f0b-9f62-0d2b8a7e4c22"
	d, err := OpenDir(h, "memory", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buf := NewBuffer()
	direct, err := d.CountProcs(buf)
	below, errBelow := d.CountProcsBelow(buf, new(Bound))
	if err != nil || errBelow != nil || direct != 0 || below != 4 {
		t.Errorf("%d processes and %d below, %v, %v, want 0 and 4", direct, below, err, errBelow)
	}
	if n, ok := d.Children(); ok && n != 2 {
		t.Errorf("%d children, want 2", n)
	}
}

// nest creates nested cgroups, each opened relative to its parent, and adds a process to the
// last one.
func nest(t *testing.T, at string, names ...string) {
	t.Helper()
	dir, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i, name := range names {
		if err == nil {
			err = unix.Mkdirat(dir, name, 0o755)
		}
		below := -1
		if err == nil {
			below, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		_ = unix.Close(dir)
		dir = below
		file := -1
		if err == nil {
			file, err = unix.Openat(dir, "cgroup.procs", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		}
		if err == nil && i == len(names)-1 {
			_, err = unix.Write(file, []byte("4711\n"))
		}
		_ = unix.Close(file)
	}
	_ = unix.Close(dir)
	if err != nil {
		t.Fatal(err)
	}
}

// TestCountProcsBelow_CountsHostileTreesOrReportsBound checks that the processes of any
// container are counted, or the count is reported as a lower bound.
func TestCountProcsBelow_CountsHostileTreesOrReportsBound(t *testing.T) {
	for name, tc := range map[string]struct {
		dirs, depth, length int
		want                int
		err                 error
	}{
		"path longer than PATH_MAX": {1, 20, 255, 1, nil},
		"maximum depth":             {1, maxBelowDepth, 1, 1, nil},
		"above maximum depth":       {1, maxBelowDepth + 1, 1, 0, ErrBound},
		"maximum number":            {maxDirs, 1, 9, maxDirs, nil},
		"above maximum number":      {2 * maxDirs, 1, 9, maxDirs, ErrBound},
	} {
		t.Run(name, func(t *testing.T) {
			h := At(V2, t.TempDir())
			for i := range tc.dirs {
				first := fmt.Sprintf("%0*d", tc.length, i)
				rest := slices.Repeat([]string{strings.Repeat("x", tc.length)}, tc.depth-1)
				nest(t, h.Root, append([]string{first}, rest...)...)
			}
			put(t, h, "/", "cgroup.procs", "")
			d := must(OpenDir(h, "memory", "/"))(t)
			defer d.Close()
			for range 2 { // from the start each time
				bound := Bound{until: time.Now().Add(time.Hour)} // without a time limit
				n, err := d.CountProcsBelow(NewBuffer(), &bound)
				if n != tc.want || !errors.Is(err, tc.err) || bound.visited > maxDirs {
					t.Errorf("%d processes, %v, %d cgroups visited, want %d, %v", n, err, bound.visited, tc.want, tc.err)
				}
			}
		})
	}
}

func TestBound_EndsInTime(t *testing.T) {
	b := Bound{visited: 1, until: time.Now()}
	for range 2 * clockEvery {
		if b.visit() != nil {
			return
		}
	}
	t.Errorf("%d cgroups were visited after the deadline", b.visited)
}

// TestCountProcsBelow_FailsOnUnopenableCgroup checks that a cgroup that can not be opened is an
// error: it may contain processes, unlike a removed one.
func TestCountProcsBelow_FailsOnUnopenableCgroup(t *testing.T) {
	h := At(V2, t.TempDir())
	put(t, h, "/inner", "cgroup.procs", "4711\n")
	d := must(OpenDir(h, "memory", "/"))(t)
	defer d.Close()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(d.fd) + 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	n, err := d.CountProcsBelow(NewBuffer(), new(Bound))
	if restored := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); restored != nil {
		t.Fatal(restored)
	}
	if n != 0 || !errors.Is(err, unix.EMFILE) {
		t.Errorf("%d processes, %v, want %v", n, err, unix.EMFILE)
	}
}

// TestTasks_ReadsPIDsController checks that the pids controller counts tasks in cgroups that
// can not be visited.
func TestTasks_ReadsPIDsController(t *testing.T) {
	for _, h := range []Hierarchy{At(V1, t.TempDir()), At(V2, t.TempDir())} {
		put(t, h, "/pod", "cgroup.procs", "")
		d := must(OpenDir(h, "memory", "/pod"))(t)
		defer d.Close()
		if n, err := d.Tasks(NewBuffer()); !IsGone(err) {
			t.Errorf("%d tasks, %v, want not exist without the controller", n, err)
		}
		pids := h.Dir("pids", "/pod")
		if err := errors.Join(os.MkdirAll(pids, 0o755), os.WriteFile(pids+"/pids.current", []byte("7000\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if n, err := d.Tasks(NewBuffer()); n != 7000 || err != nil {
			t.Errorf("%d tasks, %v, want 7000", n, err)
		}
	}
}

// TestCountProcs_CountsListsOfAnyLength covers lists of any length.
func TestCountProcs_CountsListsOfAnyLength(t *testing.T) {
	h := At(V2, t.TempDir())
	for _, want := range []int{0, 1, 340, 341, 342, 5000, 50000} {
		var text strings.Builder
		for i := range want {
			fmt.Fprintln(&text, 10000+i)
		}
		if err := os.WriteFile(filepath.Join(h.Root, "cgroup.procs"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDir(h, "", "/")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.CountProcs(NewBuffer()); err != nil || n != want {
			t.Errorf("counted %d of %d, %v", n, want, err)
		}
		d.Close()
	}
}

// TestFile_GrowsBuffer checks that a file larger than the buffer is read completely.
func TestFile_GrowsBuffer(t *testing.T) {
	name := filepath.Join(t.TempDir(), "memory.stat")
	text := strings.Repeat("unknown 1\n", 5000) + v2Stat
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := f.Read(NewBuffer()); err != nil || string(got) != text {
		t.Errorf("read %d of %d bytes, %v", len(got), len(text), err)
	}
}

func TestReadError_NamesFileAndRemedy(t *testing.T) {
	_, err := OpenMemory(fixtures["v2-cgroupfs"], "/no/such")
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"open", "testdata/v2-cgroupfs/no/such/memory.stat", "check the path"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}
