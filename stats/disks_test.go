package stats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// runtimeAt returns the answer of a runtime with images and layers at these paths.
func runtimeAt(images, layers string) func(context.Context) (i, c []cri.Filesystem, err error) {
	return func(context.Context) (i, c []cri.Filesystem, err error) {
		return []cri.Filesystem{{Mountpoint: images}}, []cri.Filesystem{{Mountpoint: layers}}, nil
	}
}

func observe(d *Disks) (o signals.Observations) {
	d.Observe(&o)
	return o
}

// fakeDisks is a set of simulated filesystems. A filesystem that is missing in sizes does not
// answer until the test releases it.
type fakeDisks struct {
	mu      sync.Mutex
	sizes   map[string]signals.Amount
	hangs   map[string]chan struct{}
	queried map[string]int
}

func (w *fakeDisks) query(dir string) (filesystem, error) {
	w.mu.Lock()
	w.queried[dir]++
	hang := w.hangs[dir]
	w.mu.Unlock()
	if hang != nil {
		<-hang
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	size, ok := w.sizes[dir]
	if !ok {
		return filesystem{}, errors.New("no such directory")
	}
	return filesystem{identity: identity{device: uint64(size)}, available: size / 2, total: size, inodesFree: size / 20, inodes: size / 10}, nil
}

func (w *fakeDisks) hang(dir string) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hang := make(chan struct{})
	w.hangs[dir] = hang
	return func() {
		w.mu.Lock()
		delete(w.hangs, dir)
		w.mu.Unlock()
		close(hang)
	}
}

func (w *fakeDisks) queries(dir string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queried[dir]
}

func newFakeDisks(sizes map[string]signals.Amount) *fakeDisks {
	return &fakeDisks{sizes: sizes, hangs: map[string]chan struct{}{}, queried: map[string]int{}}
}

func TestDisks_DetectsLayout(t *testing.T) {
	w := newFakeDisks(map[string]signals.Amount{"/node": 1000, "/node/images": 1000, "/images": 2000, "/images/layers": 2000, "/layers": 3000})
	for _, tc := range []struct {
		images, layers string
		want           signals.Layout
	}{
		{"/node/images", "/node/images", signals.Single},
		{"/node/images", "/node", signals.Single},
		{"/images", "/images", signals.Dedicated},
		{"/images", "/images/layers", signals.Dedicated},
		{"/images", "/node", signals.Split},
		{"/images", "/layers", signals.Split},
		{"/node/images", "/layers", signals.Split},
	} {
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: runtimeAt(tc.images, tc.layers), Timeout: time.Minute}, w.query)
		if l, ok := d.Layout(); ok {
			t.Errorf("got layout %s before the first query", l)
		}
		if err := d.Locate(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := observe(d)
		for s, dir := range map[signals.Signal]string{signals.NodefsAvailable: "/node", signals.ImagefsAvailable: tc.images, signals.ContainerfsAvailable: tc.layers} {
			if size := w.sizes[dir]; o[s].Available != size/2 || o[s].Capacity != size || o[s+1].Available != size/20 || o[s+1].Capacity != size/10 {
				t.Errorf("%s: %+v, %+v, want %d", s, o[s], o[s+1], size)
			}
		}
		if l, ok := d.Layout(); l != tc.want || !ok {
			t.Errorf("images in %s, layers in %s: %s, %t, want %s", tc.images, tc.layers, l, ok, tc.want)
		}
	}
}

func TestDisks_UsesOneFilesystemWithoutRuntime(t *testing.T) {
	w := newFakeDisks(map[string]signals.Amount{"/node": 1000})
	d := newDisks(DiskOptions{NodeDirectory: "/node", Timeout: time.Minute}, w.query)
	d.Run(t.Context()) // without a runtime
	before := time.Now()
	o := observe(d)
	for s := signals.NodefsAvailable; s <= signals.ContainerfsInodesFree; s++ {
		if !o[s].Known || o[s] != o[signals.NodefsAvailable+(s-signals.NodefsAvailable)%2] || o[s].Time.Before(before) {
			t.Errorf("%s = %+v", s, o[s])
		}
	}
	if l, ok := d.Layout(); l != signals.Single || !ok || w.queries("/node") != 1 {
		t.Errorf("got %s, %t and %d queries, want a single filesystem and 1", l, ok, w.queries("/node"))
	}
}

// TestDisks_HangAffectsOneFilesystem checks that a hanging filesystem makes only its own
// signals unknown. It occupies one goroutine however often it is queried, and delays callers by
// at most the timeout.
func TestDisks_HangAffectsOneFilesystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeDisks(map[string]signals.Amount{"/node": 1000, "/images": 2000})
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: runtimeAt("/images", "/images")}, w.query)
		if err := d.Locate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o := observe(d); !o[signals.ImagefsAvailable].Known {
			t.Fatalf("before it hangs: %+v", o[signals.ImagefsAvailable])
		}
		<-time.After(time.Second)
		release := w.hang("/images")
		for range 50 {
			start := time.Now()
			o := observe(d)
			if took := time.Since(start); took > defaultDiskTimeout {
				t.Fatalf("an observation took %s, want at most 20 ms", took)
			}
			expectUnknown(t, o, signals.ImagefsAvailable, "statfs /images has not answered")
			expectUnknown(t, o, signals.ContainerfsInodesFree, "statfs /images has not answered")
			if !o[signals.NodefsAvailable].Known {
				t.Fatalf("nodefs is unknown, too: %+v", o[signals.NodefsAvailable])
			}
		}
		if _, _, err := d.Available(signals.Imagefs); err == nil || !strings.Contains(err.Error(), "has not answered") {
			t.Errorf("Available(Imagefs) = %v", err)
		}
		if n := w.queries("/images"); n != 2 {
			t.Errorf("got %d queries, want 2: before and during the hang", n)
		}
		if l, ok := d.Layout(); l != signals.Dedicated || !ok {
			t.Errorf("the layout was lost: %s, %t", l, ok)
		}
		release()
		synctest.Wait()
		if o := observe(d); !o[signals.ImagefsAvailable].Known || !o[signals.ImagefsAvailable].Time.Equal(time.Now()) {
			t.Errorf("after the hang: %+v", o[signals.ImagefsAvailable])
		}
	})
}

// TestDisks_RunsOneQueryPerProbe checks that the replacement of a hanging filesystem is
// not queried either: each probe occupies at most one goroutine.
func TestDisks_RunsOneQueryPerProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeDisks(map[string]signals.Amount{"/node": 1000, "/images": 2000, "/other": 3000})
		at := "/images"
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: func(ctx context.Context) (i, c []cri.Filesystem, err error) { return runtimeAt(at, at)(ctx) }}, w.query)
		release := w.hang("/images")
		for _, at = range []string{"/images", "/other"} {
			if err := d.Locate(t.Context()); err != nil {
				t.Fatal(err)
			}
			expectUnknown(t, observe(d), signals.ImagefsAvailable, "statfs "+at+" has not answered")
		}
		if n := w.queries("/other"); n != 0 {
			t.Errorf("got %d queries during a hanging query, want 0", n)
		}
		release()
		synctest.Wait()
		if _, ok := d.Layout(); ok {
			t.Error("the layout uses the answer of the previous directory")
		}
		if o := observe(d)[signals.ImagefsAvailable]; o.Capacity != 3000 {
			t.Errorf("after the hang: %+v", o)
		}
	})
}

func TestSized_ConvertsStatfs(t *testing.T) {
	for _, tc := range []struct {
		name string
		fs   unix.Statfs_t
		want filesystem
		err  error
	}{
		{"ext4 with fragments and reserved blocks", unix.Statfs_t{Bsize: 4096, Frsize: 1024, Blocks: 100, Bfree: 60, Bavail: 50, Files: 10, Ffree: 4},
			filesystem{available: 50 << 10, total: 100 << 10, inodesFree: 4, inodes: 10}, nil},
		{"no fragments", unix.Statfs_t{Bsize: 512, Blocks: 8, Bavail: 8, Files: 1},
			filesystem{available: 4096, total: 4096, inodesFree: 0, inodes: 1}, nil},
		{"no inode limit", unix.Statfs_t{Frsize: 1, Blocks: 8, Bavail: 0},
			filesystem{available: 0, total: 8, inodesFree: NoInodeLimit, inodes: NoInodeLimit}, nil},
		{"no blocks", unix.Statfs_t{Frsize: 4096, Files: 5}, filesystem{}, errNoSize},
		{"no block size", unix.Statfs_t{Blocks: 5}, filesystem{}, errNoSize},
		{"size overflow", unix.Statfs_t{Frsize: 4096, Blocks: 1 << 51}, filesystem{}, errAbsurdSize},
		{"negative available blocks", unix.Statfs_t{Frsize: 4096, Blocks: 5, Bavail: 1<<64 - 1}, filesystem{}, errAbsurdSize},
		{"negative free inodes", unix.Statfs_t{Frsize: 4096, Blocks: 5, Files: 1, Ffree: 1<<64 - 1}, filesystem{}, errAbsurdSize},
	} {
		if got, err := sized(&tc.fs); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", tc.name, got, err, tc.want, tc.err)
		}
	}
}

// TestDisks_UsesLateAnswer checks that a filesystem slower than every deadline is known
// as of the time of its query, for at most one minute.
func TestDisks_UsesLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeDisks(map[string]signals.Amount{"/node": 1000})
		d := newDisks(DiskOptions{NodeDirectory: "/node"}, w.query)
		queried := time.Now()
		release := w.hang("/node")
		expectUnknown(t, observe(d), signals.NodefsAvailable, "has not answered")
		release()
		synctest.Wait()
		release = w.hang("/node")
		defer func() { release() }()
		<-time.After(lateFor - 3*defaultDiskTimeout)
		if o := observe(d)[signals.NodefsAvailable]; !o.Known || !o.Time.Equal(queried) {
			t.Errorf("got late answer %+v, want one from %s", o, queried)
		}
		expectUnknown(t, observe(d), signals.NodefsAvailable, "has not answered")
	})
}

// TestDisks_AvailableIsNotOlderThanCall checks that a collector receives the available space
// after its work, even while an earlier observation is pending.
func TestDisks_AvailableIsNotOlderThanCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeDisks(map[string]signals.Amount{"/node": 1000})
		d := newDisks(DiskOptions{NodeDirectory: "/node"}, w.query)
		release := w.hang("/node")
		go observe(d)
		synctest.Wait()
		<-time.After(time.Millisecond)
		go func() {
			<-time.After(time.Millisecond)
			release()
		}()
		available, capacity, err := d.Available(signals.Nodefs)
		if n := w.queries("/node"); available != 500 || capacity != 1000 || err != nil || n != 2 {
			t.Errorf("got %d of %d bytes, %v and %d queries, want 500 of 1000 and 2", available, capacity, err, n)
		}
		for _, fs := range []signals.Filesystem{signals.NoFilesystem, 9} {
			if _, _, err := d.Available(fs); err == nil {
				t.Errorf("got no error for filesystem %d", fs)
			}
		}
	})
}

func TestDisks_RetainsMountpointsOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeDisks(map[string]signals.Amount{"/node": 1000, "/images": 2000, "/other": 3000})
		var mu sync.Mutex
		at, fault := "", errors.New("connection refused")
		set := func(dir string, err error) {
			mu.Lock()
			defer mu.Unlock()
			at, fault = dir, err
		}
		report := func(context.Context) (i, c []cri.Filesystem, err error) {
			mu.Lock()
			defer mu.Unlock()
			return []cri.Filesystem{{Mountpoint: at}}, nil, fault
		}
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: report}, w.query)
		expectUnknown(t, observe(d), signals.ImagefsAvailable, "has not reported")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.Run(ctx)
		synctest.Wait()
		expectUnknown(t, observe(d), signals.ImagefsInodesFree, "connection refused")
		if _, _, err := d.Available(signals.Containerfs); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("Available(Containerfs) = %v", err)
		}
		for _, step := range []struct {
			dir   string
			fault error
			want  signals.Amount
		}{
			{"/images", nil, 2000},
			{"", errors.New("connection refused"), 2000},
			{"", nil, 2000}, // an answer without a directory is invalid
			{"/other", nil, 3000},
		} {
			set(step.dir, step.fault)
			<-time.After(2 * locateInterval)
			o := observe(d)
			if o[signals.ImagefsAvailable].Capacity != step.want || o[signals.ContainerfsAvailable].Capacity != step.want {
				t.Errorf("%+v: %+v", step, o[signals.ImagefsAvailable])
			}
		}
	})
}

// TestNoInodeLimit_MeetsNoThreshold checks that a filesystem without an inode limit meets no
// threshold and lets a True condition end. The kubelet reads the 0 inodes of btrfs as
// exhaustion.
func TestNoInodeLimit_MeetsNoThreshold(t *testing.T) {
	policy, err := eviction.NewPolicy(eviction.Settings{TransitionPeriod: time.Minute, Thresholds: []eviction.Threshold{
		{Signal: signals.NodefsInodesFree, Value: eviction.Value{Fraction: 0.99999999, Percent: "99.999999%"}},
		{Signal: signals.NodefsInodesFree, Value: eviction.Value{Quantity: signals.Quantity{Value: NoInodeLimit}}, MinReclaim: eviction.Value{Quantity: signals.Quantity{Value: NoInodeLimit}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	machine := eviction.New(policy)
	evaluate := func(at time.Time, free, limit signals.Amount) eviction.Verdict {
		s := signals.Snapshot{At: at}
		s.Node[signals.NodefsInodesFree] = signals.Observed(free, limit, at)
		s.Node[signals.ContainerfsInodesFree] = s.Node[signals.NodefsInodesFree]
		return machine.Evaluate(&s)
	}
	if v := evaluate(noon, 0, 1000); v.Target == nil || !v.Conditions.Has(signals.DiskPressure) {
		t.Fatalf("without free inodes: %+v", v)
	}
	v := evaluate(noon.Add(2*time.Minute), NoInodeLimit, NoInodeLimit)
	if v.Target != nil || v.GracePassed != 0 || v.Unknown != 0 || v.Conditions.Has(signals.DiskPressure) {
		t.Errorf("without an inode limit: %+v", v)
	}
}

func TestDisks_ReportsUnusableDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	expectUnknown(t, observe(OpenDisks(DiskOptions{NodeDirectory: missing, Timeout: time.Minute})), signals.NodefsAvailable, "check the path")
	expectUnknown(t, observe(OpenDisks(DiskOptions{HostRoot: missing, NodeDirectory: "/", Timeout: time.Minute})), signals.NodefsInodesFree, "check the path")
	expectUnknown(t, observe(OpenDisks(DiskOptions{NodeDirectory: "/proc", Timeout: time.Minute})), signals.NodefsAvailable, "no size")
}

// TestDisks_ResolvesLinksBelowHostRoot checks that in a container a symbolic link of the host
// resolves as on the host.
func TestDisks_ResolvesLinksBelowHostRoot(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(root+"/data/kubelet", 0o755), os.Mkdir(root+"/var", 0o755),
		os.Symlink("/data/kubelet", root+"/var/kubelet"), os.Symlink("../../../../../../data", root+"/var/up")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/var/kubelet", "/var/up/kubelet"} {
		o := observe(OpenDisks(DiskOptions{HostRoot: root, NodeDirectory: dir, Timeout: time.Minute}))
		if !o[signals.NodefsAvailable].Known {
			t.Errorf("%s: %+v", dir, o[signals.NodefsAvailable])
		}
	}
}

func BenchmarkObserveDisks(b *testing.B) {
	d := OpenDisks(DiskOptions{NodeDirectory: "/", Filesystems: runtimeAt("/tmp", "/var")})
	if err := d.Locate(b.Context()); err != nil {
		b.Fatal(err)
	}
	var into signals.Observations
	b.ReportAllocs()
	for b.Loop() {
		d.Observe(&into)
	}
	if !into[signals.ImagefsAvailable].Known {
		b.Fatalf("%+v", into)
	}
}
