package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	switch os.Getenv(makerVariable) {
	case "":
	case "where":
		text, err := os.ReadFile("/proc/self/cgroup")
		fmt.Print(string(text))
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	default:
		makeNode()
	}
	os.Exit(m.Run())
}

// makerVariable turns this binary into a process that creates a node with a hog in it, prints
// its place, and waits for its end.
const makerVariable = "PLIMSOLL_SANDBOX_MAKER"

func makeNode() {
	CatchSignals()
	n, err := NewNode("maker", 64<<20)
	if err == nil {
		var p *Pod
		if p, err = n.AddPod("1", Guaranteed, "main"); err == nil {
			_, err = n.Start(p, "main", hog.Command("hold"))
		}
	}
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	fmt.Println(n.Path())
	if os.Getenv(makerVariable) == "panic" {
		defer n.Close()
		panic("as asked")
	}
	select {}
}

// TestCleanup_AfterSignalOrSweep: the owner cleans up on a signal, and a sweep does after SIGKILL.
func TestCleanup_AfterSignalOrSweep(t *testing.T) {
	Need(t)
	for how, sig := range map[string]syscall.Signal{
		"interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM, "hang up": syscall.SIGHUP, "panic": 0, "kill": syscall.SIGKILL,
	} {
		t.Run(how, func(t *testing.T) {
			cmd, path := Maker(t, makerVariable+"="+how, nil)
			if !strings.HasPrefix(path, "/plimsoll-maker.") {
				t.Fatalf("the maker printed %q", path)
			}
			if sig != 0 {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // it exits with an error
			if sig == syscall.SIGKILL {
				if err := Sweep("maker"); err != nil {
					t.Fatal(err)
				}
			}
			if left, _ := filepath.Glob(mountRoot + "/*" + path); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
			if left, _ := filepath.Glob(mountRoot + path); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
		})
	}
}

func testNode(t *testing.T, limit int64, options ...Option) *Node {
	t.Helper()
	Need(t)
	n, err := NewNode("self", limit, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range n.dirs() {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was not removed: %v", dir, err)
			}
		}
	})
	return n
}

func testPod(t *testing.T, n *Node, uid string) *Pod {
	t.Helper()
	p, err := n.AddPod(uid, Burstable, "main")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testHog(t *testing.T, p *Pod) *Hog {
	t.Helper()
	h, err := p.node.StartHog(t.Context(), p, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestStart_JoinsCgroupBeforeExec(t *testing.T) {
	n := testNode(t, 64<<20)
	p := testPod(t, n, "1")
	out := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), makerVariable+"=where")
	cmd.Stdout = file
	started, err := n.Start(p, "main", cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-started.Done()
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSpace(line), p.Path()+"/main") {
			inside++
		}
	}
	if inside != len(n.layout.mounts) {
		t.Errorf("inside %d of %d hierarchies:\n%s", inside, len(n.layout.mounts), text)
	}
}

func TestOOMKills_BesideRemovedCgroups(t *testing.T) {
	n := testNode(t, 64<<20)
	parent := n.Dir("memory")
	if n.layout.version == 2 {
		parent = n.Dir(Unified)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			dir := filepath.Join(parent, fmt.Sprintf("passing-%d", i%8))
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Remove(dir)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	defer func() {
		close(stop)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	for range 2000 {
		if kills, err := n.OOMKills(); err != nil || kills != 0 {
			t.Fatalf("got %d, %v", kills, err)
		}
	}
}

func TestHog_IsChargedToItsPod(t *testing.T) {
	n := testNode(t, 256<<20)
	p := testPod(t, n, "1")
	h := testHog(t, p)
	before, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	took, err := h.Do(t.Context(), "fill 100MiB at 200MiB/s")
	if err != nil {
		t.Fatal(err)
	}
	if took < 499*time.Millisecond { // longer on a busy machine
		t.Errorf("100MiB at 200MiB/s took %v, want at least 0.5s", took)
	}
	after, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown < 99<<20 || grown > 104<<20 {
		t.Errorf("the pod grew by %d bytes, want 100MiB", grown)
	}
	if _, err := h.Do(t.Context(), "release"); err != nil {
		t.Fatal(err)
	}
	if after, err = p.Usage(); err != nil || after > before+8<<20 { // the program itself grows a little
		t.Errorf("usage %d after release, %d before (%v)", after, before, err)
	}
}

func TestOOMKills_CountsKills(t *testing.T) {
	n := testNode(t, 64<<20)
	if kills, err := n.OOMKills(); err != nil || kills != 0 {
		t.Fatalf("a fresh node has %d OOM kills, %v", kills, err)
	}
	h := testHog(t, testPod(t, n, "1"))
	if _, err := h.Do(t.Context(), "fill 128MiB"); !errors.Is(err, hog.ErrEnded) {
		t.Fatalf("filling twice the limit: %v", err)
	}
	<-h.Process.Done()
	if kills, err := n.OOMKills(); err != nil || kills != 1 {
		t.Errorf("%d OOM kills, %v; want 1", kills, err)
	}
}

func TestLimitMemory_BoundsPageCache(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skipf("the temporary directory is in memory (%v): its pages can not be reclaimed", err)
	}
	n := testNode(t, 256<<20)
	p := testPod(t, n, "1")
	if err := p.LimitMemory(32 << 20); err != nil {
		t.Fatal(err)
	}
	h := testHog(t, p)
	if _, err := h.Do(t.Context(), "thrash 64MiB in "+t.TempDir()+" for 50ms"); err != nil {
		t.Errorf("page cache beyond the pod's limit: %v", err)
	}
	if used, err := p.Usage(); err != nil || used > 32<<20 {
		t.Errorf("usage %d, %v; want at most 32MiB", used, err)
	}
}

// TestWorkingSet_CountsTmpfs counts a file in memory as memory, not as page cache.
func TestWorkingSet_CountsTmpfs(t *testing.T) {
	n := testNode(t, 256<<20)
	p := testPod(t, n, "1")
	h := testHog(t, p)
	before, err := n.WorkingSet()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Do(t.Context(), "tmpfs 64MiB for 1ms"); err != nil {
		t.Fatal(err)
	}
	after, err := n.WorkingSet()
	if err != nil || after-before > 8<<20 {
		t.Errorf("the working set is %d bytes larger than before, %v", after-before, err)
	}
	if err := h.Send("tmpfs 64MiB for 1h"); err != nil { // until the node is closed: no reading comes too late
		t.Fatal(err)
	}
	if err := h.AwaitDeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	full, err := n.WorkingSet()
	if grew := full - before; err != nil || grew < 60<<20 || grew > 72<<20 {
		t.Errorf("a file of 64 MiB in memory added %d bytes, %v", grew, err)
	}
	if cache, err := p.PageCache("main"); err != nil || cache > 8<<20 {
		t.Errorf("%d bytes of page cache, %v", cache, err)
	}
}

func TestClose_EndsAllProcesses(t *testing.T) {
	for name, order := range map[string]string{
		"waiting":   "threads 20",
		"deaf":      "term ignore",
		"bomb":      "fork 5000",
		"runaway":   "chain 100000",
		"processes": "fork 40",
	} {
		t.Run(name, func(t *testing.T) {
			n := testNode(t, 256<<20, PidsMax(200))
			h := testHog(t, testPod(t, n, "1"))
			if err := h.Send(order); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Await(t.Context(), order); err != nil {
				t.Fatal(err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			<-h.Process.Done()
		})
	}
}

func TestClose_ThawsFrozenPods(t *testing.T) {
	n := testNode(t, 64<<20)
	p := testPod(t, n, "1")
	h := testHog(t, p)
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	<-h.Process.Done() // a frozen process never exits
}

func TestStart_RefusedAfterClose(t *testing.T) {
	n := testNode(t, 64<<20)
	p := testPod(t, n, "1")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Start(p, "main", hog.Command("hold")); err == nil {
		t.Error("Start on a closed node returned no error")
	}
	if _, err := n.AddPod("2", Guaranteed); err == nil {
		t.Error("AddPod on a closed node returned no error")
	}
}

func TestNewNode_RefusesInvalidOptions(t *testing.T) {
	Need(t)
	for _, limit := range []int64{-1, 0, 1<<20 - 1, MaxLimit + 1} {
		if n, err := NewNode("self", limit); err == nil {
			t.Errorf("NewNode with a limit of %d: %s", limit, n.Path())
			_ = n.Close()
		}
	}
	for _, name := range []string{"", "a/b", "..", "A", "a.b"} {
		if n, err := NewNode(name, 64<<20); err == nil {
			t.Errorf("NewNode(%q): %s", name, n.Path())
			_ = n.Close()
		}
	}
}

func TestPodDir_FollowsCgroupDriver(t *testing.T) {
	cgroupfs, systemd := &Node{}, &Node{systemd: true}
	for _, c := range []struct {
		n    *Node
		qos  QoS
		want string
	}{
		{cgroupfs, Guaranteed, "kubepods/poda-b"},
		{cgroupfs, Burstable, "kubepods/burstable/poda-b"},
		{systemd, Guaranteed, "kubepods.slice/kubepods-poda_b.slice"},
		{systemd, BestEffort, "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice"},
	} {
		if got := c.n.podDir("a-b", c.qos); got != c.want {
			t.Errorf("%q systemd=%v: %s, want %s", c.qos, c.n.systemd, got, c.want)
		}
	}
}

// TestSweep_RemovesCgroupsOfDeadProcesses sweeps a directory of its own: another test process that
// starts meanwhile sweeps every name below the mount points.
func TestSweep_RemovesCgroupsOfDeadProcesses(t *testing.T) {
	n := testNode(t, 64<<20)
	me, err := myself()
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(me, "-")
	names := map[string]bool{ // removed?
		"plimsoll-swept." + me + ".1":                                             false, // alive
		"plimsoll-swept." + part[0] + "-" + part[1] + "-1.1":                      true,  // reused PID
		"plimsoll-swept.1-" + part[1] + "-1.1":                                    false, // another PID namespace
		"plimsoll-other." + part[0] + "-" + part[1] + "-1.1":                      false, // another name
		"plimsoll-swept." + part[0] + "-" + part[1] + "-1.1x":                     false, // not a name of the harness
		"xplimsoll-swept." + part[0] + "-" + part[1] + "-1.1":                     false,
		"plimsoll-swept." + part[0] + "-999999999-" + part[2] + ".1":              true, // dead
		"plimsoll-swept." + part[0] + "-999999999-" + part[2] + ".2/kubepods/pod": true,
	}
	mnt := mount{n.layout.mounts[0].controller, n.dirs()[0]}
	for name := range names {
		if err := os.MkdirAll(filepath.Join(mnt.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep([]mount{mnt}, "swept"); err != nil {
		t.Fatal(err)
	}
	for name, swept := range names {
		if _, err := os.Stat(filepath.Join(mnt.dir, name)); errors.Is(err, os.ErrNotExist) != swept {
			t.Errorf("%s: swept is %v, want %v", name, !swept, swept)
		}
	}
}

// recorder is a T that records its calls.
type recorder struct{ how []string }

func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Skipf(string, ...any)  { r.how = append(r.how, "skip") }
func (r *recorder) Fatalf(string, ...any) { r.how = append(r.how, "fail") }

func TestNeed_FailsInCI(t *testing.T) {
	missing := Missing() != nil
	for ci, want := range map[string]string{"true": "fail", "": "skip"} {
		t.Setenv("CI", ci)
		r := &recorder{}
		Need(r)
		if slices.Contains(r.how, want) != missing {
			t.Errorf("CI=%q: got %v with missing %v", ci, r.how, missing)
		}
		if r = (&recorder{}); Demand(r, "nothing can be done", errors.New("no environment")) || !slices.Equal(r.how, []string{want}) {
			t.Errorf("CI=%q: got %v with a missing prerequisite", ci, r.how)
		}
	}
}

func TestWarm_TouchesMemory(t *testing.T) {
	Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	took, err := Warm(ctx, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("touched 64 MiB in %v", took)
}
