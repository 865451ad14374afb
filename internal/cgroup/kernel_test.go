package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	if size, name, ok := strings.Cut(os.Getenv(writer), ":"); ok {
		write(size, name)
	}
	os.Exit(m.Run())
}

// writer makes this binary write a file (its size in MiB, a colon, its name) that remains after
// the process has ended.
const writer = "PLIMSOLL_CGROUP_WRITER"

func write(size, name string) {
	n, err := strconv.Atoi(size)
	var f *os.File
	if err == nil {
		f, err = os.Create(name)
	}
	for range n {
		if err == nil {
			_, err = f.Write(make([]byte, mib))
		}
	}
	if err = errors.Join(err, f.Sync()); err != nil {
		fmt.Fprintln(os.Stderr, "write", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// real is a sandbox node of 256 MiB with one pod of one container.
type real struct {
	h    Hierarchy
	node *sandbox.Node
	pod  *sandbox.Pod
}

func realNode(t testing.TB) real {
	t.Helper()
	sandbox.Need(t)
	h, err := Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	n := sandbox.Make(t, "cgroup", 256*mib, sandbox.PidsMax(1500))
	p, err := n.AddPod("a-1", sandbox.Burstable, "main")
	if err != nil {
		t.Fatal(err)
	}
	return real{h, n, p}
}

// run starts a hog in the pod and sends it the commands.
func (r real) run(t testing.TB, commands ...string) *sandbox.Hog {
	t.Helper()
	return r.node.Run(t, r.pod, "main", commands...)
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// cache writes a file of size MiB with pages that stay charged to the pod.
func (r real) cache(t *testing.T, size int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", writer, size, filepath.Join(t.TempDir(), "file")))
	cmd.Stderr = os.Stderr
	p, err := r.node.Start(r.pod, "main", cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !p.State().Success() {
		t.Fatalf("write a file: %v", p.State())
	}
}

type reading struct{ usage, inactiveFile, pids uint64 }

// library reads the cgroup with containerd's library.
func library(t testing.TB, v Version, path string) func() reading {
	t.Helper()
	if v == V2 {
		m := must(cgroup2.Load(path))(t)
		return func() reading {
			s := must(m.Stat())(t)
			return reading{s.Memory.Usage, s.Memory.InactiveFile, s.Pids.Current}
		}
	}
	c := must(cgroup1.Load(cgroup1.StaticPath(path), cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) {
		return []cgroup1.Subsystem{cgroup1.NewMemory(mountedAt), cgroup1.NewPids(mountedAt)}, nil
	})))(t)
	return func() reading {
		s := must(c.Stat())(t)
		return reading{s.Memory.Usage.Usage, s.Memory.TotalInactiveFile, s.Pids.Current}
	}
}

// TestMemory_EqualsContainerdLibrary compares readings with those of containerd's library: the
// same cgroup, read before and after it, must give equal values.
func TestMemory_EqualsContainerdLibrary(t *testing.T) {
	r := realNode(t)
	r.run(t, "fill 64MiB", "threads 5")
	total := must(OpenMemory(r.h, r.pod.Path()))(t)
	defer total.Close()
	for range 30 { // each CPU batches pages before it adds them to the counter, megabytes of large folios
		if must(total.Read())(t).InactiveFile >= 4*mib {
			break
		}
		r.cache(t, 4)
	}
	for _, path := range []string{r.node.Path(), r.pod.Path()} {
		theirs := library(t, r.h.Version, path)
		memory := must(OpenMemory(r.h, path))(t)
		defer memory.Close()
		pids := must(OpenPIDs(r.h, path, NewBuffer()))(t)
		defer pids.Close()
		// Counters of a cgroup with descendants may stand still for 2 s.
		for late := time.Now().Add(5 * time.Second); must(memory.Read())(t).InactiveFile < 4*mib && time.Now().Before(late); {
			r.cache(t, 1)
		}
		ours := func() reading {
			m := must(memory.Read())(t)
			p := must(pids.Read())(t)
			return reading{m.Usage, m.InactiveFile, p.Current}
		}
		agreed := false
		for try := 0; try < 100 && !agreed; try++ { // the kernel occasionally moves charges between CPUs
			before, library, after := ours(), theirs(), ours()
			agreed = before == library && library == after
			if before == after && !agreed {
				t.Fatalf("%s: got %+v, the library returned %+v", path, before, library)
			}
		}
		if !agreed {
			t.Errorf("%s: the values changed during every comparison", path)
		}
		if got := ours(); got.usage < 68*mib || got.pids < 6 || got.inactiveFile < 4*mib {
			t.Errorf("%s: %+v, want at least what the hog uses", path, got)
		}
	}
}

func TestMemory_ReadsKernelLimits(t *testing.T) {
	r := realNode(t)
	node, pod := must(OpenMemory(r.h, r.node.Path()))(t), must(OpenMemory(r.h, r.pod.Path()))(t)
	defer node.Close()
	defer pod.Close()
	if limit, limited, err := node.Limit(); limit != 256*mib || !limited || err != nil {
		t.Errorf("node: %d, %t, %v, want 256 MiB", limit, limited, err)
	}
	if limit, limited, err := pod.Limit(); limited || err != nil {
		t.Errorf("pod: %d, %t, %v, want none", limit, limited, err)
	}
	pids := must(OpenPIDs(r.h, r.node.Path(), NewBuffer()))(t)
	defer pids.Close()
	if u, err := pids.Read(); err != nil || !u.Limited || u.Max != 1500 {
		t.Errorf("pids: %+v, %v, want a limit of 1500", u, err)
	}
}

func TestReaders_AllocateNothing(t *testing.T) {
	r := realNode(t)
	r.run(t)
	memory, pids := must(OpenMemory(r.h, r.pod.Path()))(t), must(OpenPIDs(r.h, r.pod.Path(), NewBuffer()))(t)
	dir := must(OpenDir(r.h, "memory", r.pod.Path()))(t)
	defer memory.Close()
	defer pids.Close()
	defer dir.Close()
	buf := NewBuffer()
	for name, read := range map[string]func() error{
		"Memory.Read":    func() error { _, err := memory.Read(); return err },
		"Memory.Usage":   func() error { _, err := memory.Usage(); return err },
		"Memory.Limit":   func() error { _, _, err := memory.Limit(); return err },
		"PIDs.Read":      func() error { _, err := pids.Read(); return err },
		"Dir.CountProcs": func() error { _, err := dir.CountProcs(buf); return err },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := read(); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

// makeGroup creates an empty cgroup below the pod, in the memory controller only. It returns
// the path and functions to recreate and remove it.
func (r real) makeGroup(t *testing.T, name string) (path string, remake, remove func()) {
	t.Helper()
	path = filepath.Join(r.pod.Path(), name)
	dir := r.h.Dir("memory", path)
	remake = func() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	remake()
	return path, remake, func() {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemory_ReopensRecreatedCgroup(t *testing.T) {
	r := realNode(t)
	path, remake, remove := r.makeGroup(t, "again")
	m := must(OpenMemory(r.h, path))(t)
	defer m.Close()
	if _, err := m.Read(); err != nil {
		t.Fatal(err)
	}
	remove()
	_, first := m.Read()
	_, second := m.Read()
	if !errors.Is(first, fs.ErrNotExist) {
		t.Errorf("reading a removed cgroup: %v", first)
	}
	if first != second {
		t.Errorf("a repeated failure returned another value: %v, %v", first, second)
	}
	remake()
	if u, err := m.Read(); err != nil {
		t.Errorf("reading the recreated cgroup: %+v, %v", u, err)
	}
}

func TestDir_StaysWithRemovedCgroup(t *testing.T) {
	r := realNode(t)
	path, remake, remove := r.makeGroup(t, "other")
	d := must(OpenDir(r.h, "memory", path))(t)
	defer d.Close()
	m := must(d.OpenMemory(r.h.Version, NewBuffer()))(t)
	defer m.Close()
	if _, err := m.Read(); err != nil {
		t.Fatal(err)
	}
	remove()
	remake()
	if u, err := m.Read(); !IsGone(err) {
		t.Errorf("read %+v, %v of the new cgroup at the path", u, err)
	}
	if n, err := d.CountProcs(NewBuffer()); !IsGone(err) {
		t.Errorf("counted %d processes, %v", n, err)
	}
	if after := must(OpenDir(r.h, "memory", path))(t); after.Inode() == d.Inode() {
		t.Errorf("both cgroups have inode %d", d.Inode())
	}
}

// TestCountProcs_ReadsFreshList covers version 1, which returns an old list for an open
// descriptor of cgroup.procs.
func TestCountProcs_ReadsFreshList(t *testing.T) {
	r := realNode(t)
	d := must(OpenDir(r.h, "memory", filepath.Join(r.pod.Path(), "main")))(t)
	defer d.Close()
	buf := NewBuffer()
	for want := range 4 {
		if n, err := d.CountProcs(buf); err != nil || n != want {
			t.Errorf("%d processes, %v, want %d", n, err, want)
		}
		r.run(t)
	}
	if n, ok := d.Children(); !ok || n != 0 {
		t.Errorf("%d children, %t, want none", n, ok)
	}
	pod := must(OpenDir(r.h, "memory", r.pod.Path()))(t)
	defer pod.Close()
	if n, err := pod.CountProcsBelow(buf, new(Bound)); err != nil || n != 4 {
		t.Errorf("%d processes below the pod, %v, want 4", n, err)
	}
}

// TestCountProcs_CountsThreadedCgroupInDomain covers threaded cgroups, as used by virtual
// machines with dedicated processors, which list no process. An unknown number of processes
// would rank such pods last.
func TestCountProcs_CountsThreadedCgroupInDomain(t *testing.T) {
	r := realNode(t)
	h := r.h
	if h.Version == V1 {
		h = At(V2, filepath.Join(h.Root, sandbox.Unified))
	}
	domain := must(OpenDir(h, "memory", filepath.Join(r.pod.Path(), "main")))(t)
	defer domain.Close()
	threaded := filepath.Join(domain.Path(), "vcpu")
	if err := errors.Join(os.Mkdir(threaded, 0o755), os.WriteFile(filepath.Join(threaded, "cgroup.type"), []byte("threaded"), 0)); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(threaded)
	r.run(t)
	buf := NewBuffer()
	if n, err := domain.CountProcs(buf); err != nil || n != 1 {
		t.Errorf("%d processes, %v, want 1", n, err)
	}
	if n, err := domain.CountProcsBelow(buf, new(Bound)); err != nil || n != 0 {
		t.Errorf("%d processes below, %v, want 0", n, err)
	}
}

// TestCountProcs_ReadsKernelListInPieces covers a long list, which the kernel returns in pieces.
func TestCountProcs_ReadsKernelListInPieces(t *testing.T) {
	r := realNode(t)
	r.run(t, "fork 750")
	d := must(OpenDir(r.h, "memory", filepath.Join(r.pod.Path(), "main")))(t)
	defer d.Close()
	buf := NewBuffer()
	n := 0
	for end := time.Now().Add(20 * time.Second); n != 751 && time.Now().Before(end); {
		n = must(d.CountProcs(buf))(t)
	}
	if n != 751 {
		t.Errorf("counted %d processes, want the hog and 750 forks", n)
	}
}

func TestParseCgroupFile_ParsesFileOfThisProcess(t *testing.T) {
	text := must(os.ReadFile("/proc/self/cgroup"))(t)
	paths := must(ParseCgroupFile(text))(t)
	for controller, path := range paths {
		if !strings.HasPrefix(path, "/") {
			t.Errorf("%s: %q", controller, path)
		}
	}
}

func TestPodTree_ListsPodsOfSandbox(t *testing.T) {
	r := realNode(t)
	pods := must(findPods(r.h, r.node.Path()))(t)
	if len(pods) != 1 || pods[0].UID != "a-1" || pods[0].Path != r.pod.Path() || fmt.Sprint(pods[0].Containers) != "[{main "+r.pod.Path()+"/main}]" {
		t.Errorf("findPods = %+v", pods)
	}
}

func BenchmarkMemoryRead(b *testing.B) {
	r := realNode(b)
	m := must(OpenMemory(r.h, r.pod.Path()))(b)
	defer m.Close()
	p := must(OpenPIDs(r.h, r.pod.Path(), NewBuffer()))(b)
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		_, err1 := m.Read()
		_, err2 := p.Read()
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
	}
}

func BenchmarkLibraryStat(b *testing.B) {
	r := realNode(b)
	stat := library(b, r.h.Version, r.pod.Path())
	b.ReportAllocs()
	for b.Loop() {
		stat()
	}
}
