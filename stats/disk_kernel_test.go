package stats

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// root returns an error unless the test runs as root.
func root() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	return nil
}

// inPrivateMounts reruns the test in a process with its own mount namespace, and reports
// whether this is that process. Its mounts end with the process.
func inPrivateMounts(t *testing.T) bool {
	t.Helper()
	sandbox.Demand(t, "mounts can not be created", root())
	return inOwnProcess(t, syscall.CLONE_NEWNS)
}

// inOwnProcess reruns the test in a process without other tests, with new namespaces of some kinds, and reports
// whether this is that process.
func inOwnProcess(t *testing.T, namespaces uintptr) bool {
	t.Helper()
	const key = "PLIMSOLL_TEST_OWN_PROCESS"
	if os.Getenv(key) == t.Name() {
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	again.Env = append(os.Environ(), key+"="+t.Name())
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: namespaces, Pdeathsig: syscall.SIGKILL}
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("run in a process of its own: %v\n%s", err, out)
	}
	return false
}

func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Fatalf("mount %s on %s: %v", kind, dir, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func tmpfs(t *testing.T, dir, data string) string { return mount(t, "none", dir, "tmpfs", 0, data) }

func writeFile(t testing.TB, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDisks_DetectsLayoutOfRealFilesystems(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	root := t.TempDir()
	tmpfs(t, root+"/kubelet", "size=8m,nr_inodes=400")
	tmpfs(t, root+"/images", "size=4m,nr_inodes=200")
	mount(t, root+"/kubelet", root+"/bound", "", unix.MS_BIND, "")
	for _, tc := range []struct {
		images, layers string
		layout         signals.Layout
		capacities     [2]signals.Amount // imagefs, containerfs
	}{
		{"/bound", "/kubelet", signals.Single, [2]signals.Amount{8 * mib, 8 * mib}},
		{"/images", "/images", signals.Dedicated, [2]signals.Amount{4 * mib, 4 * mib}},
		{"/images", "/bound", signals.Split, [2]signals.Amount{4 * mib, 8 * mib}},
	} {
		d := OpenDisks(DiskOptions{HostRoot: root, NodeDirectory: "/kubelet", Filesystems: runtimeAt(tc.images, tc.layers), Timeout: time.Minute})
		if err := d.Locate(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := observe(d)
		if l, ok := d.Layout(); l != tc.layout || !ok {
			t.Errorf("%+v: %s, %t", tc, l, ok)
		}
		got := [2]signals.Amount{o[signals.ImagefsAvailable].Capacity, o[signals.ContainerfsAvailable].Capacity}
		if node := o[signals.NodefsAvailable]; node.Capacity != 8*mib || got != tc.capacities {
			t.Errorf("%s: capacities %d, %v", tc.layout, node.Capacity, got)
		}
	}
}

func TestDisks_ObservesUseOfRealFilesystem(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	dir := tmpfs(t, t.TempDir()+"/node", "size=8m,nr_inodes=100")
	d := OpenDisks(DiskOptions{NodeDirectory: dir, Timeout: time.Minute})
	d.availableWait = time.Minute
	before := observe(d)
	writeFile(t, dir+"/big", 3*mib)
	for i := range 50 {
		writeFile(t, fmt.Sprint(dir, "/", i), 0)
	}
	after := observe(d)
	for s, fell := range map[signals.Signal]signals.Amount{signals.NodefsAvailable: 3 * mib, signals.ImagefsInodesFree: 51} {
		if before[s].Available-after[s].Available != fell || before[s].Capacity != after[s].Capacity || !after[s].Time.After(before[s].Time) {
			t.Errorf("%s: before %+v, after %+v", s, before[s], after[s])
		}
	}
	if available, capacity, err := d.Available(signals.Imagefs); available != 5*mib || capacity != 8*mib || err != nil {
		t.Errorf("got %d of %d bytes, %v, want 5 and 8 MiB", available, capacity, err)
	}
	d = OpenDisks(DiskOptions{NodeDirectory: tmpfs(t, t.TempDir()+"/unlimited", "nr_inodes=0"), Timeout: time.Minute})
	if o := observe(d)[signals.NodefsInodesFree]; !o.Known || o.Available != NoInodeLimit || o.Capacity != NoInodeLimit {
		t.Errorf("without an inode limit: %+v", o)
	}
}

// TestDisks_TreatsBtrfsSubvolumesAsOne checks that subvolumes with separate devices and shared
// space are one filesystem without an inode limit.
func TestDisks_TreatsBtrfsSubvolumesAsOne(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	unpack(t, "testdata/btrfs.img.gz", image)
	top := filepath.Join(dir, "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, top).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	defer unix.Unmount(top, 0) //nolint:errcheck // the namespace ends, too
	d := OpenDisks(DiskOptions{NodeDirectory: top, Filesystems: runtimeAt(top+"/sub", top+"/sub"), Timeout: time.Minute})
	if err := d.Locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := observe(d)
	if l, ok := d.Layout(); l != signals.Single || !ok {
		t.Errorf("%s, %t: %+v", l, ok, o)
	}
	if free := o[signals.ImagefsInodesFree]; !free.Known || free.Available != NoInodeLimit {
		t.Errorf("inodes: %+v", free)
	}
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, content); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// hangingMount mounts a filesystem that never answers. The hang equals that of a dead disk, but
// the test can end it.
func hangingMount(t *testing.T, dir string) (end func()) {
	t.Helper()
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open /dev/fuse: %v", err)
	}
	mount(t, "dead", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server))
	return func() { _ = unix.Close(server) }
}

func TestDisks_SurvivesRealHang(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	dir := t.TempDir() + "/dead"
	end := hangingMount(t, dir)
	d := OpenDisks(DiskOptions{NodeDirectory: t.TempDir(), Filesystems: runtimeAt(dir, dir), Timeout: 2 * time.Second})
	d.availableWait = time.Minute
	if err := d.Locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		o := observe(d) // the filesystem answers only after end: an observation that waits for it never returns
		expectUnknown(t, o, signals.ImagefsAvailable, "has not answered in time")
		if !o[signals.NodefsAvailable].Known {
			t.Errorf("nodefs: %+v", o[signals.NodefsAvailable])
		}
	}
	end()
	if _, _, err := d.Available(signals.Imagefs); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("after the hang: %v", err)
	}
}
