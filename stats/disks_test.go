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

// world is a set of simulated filesystems. A filesystem that is missing in sizes does not
// answer until the test releases it.
type world struct {
	mu    sync.Mutex
	sizes map[string]signals.Amount
	hangs map[string]chan struct{}
	asked map[string]int
}

func (w *world) ask(dir string) (filesystem, error) {
	w.mu.Lock()
	w.asked[dir]++
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

func (w *world) hang(dir string) (release func()) {
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

func (w *world) asks(dir string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[dir]
}

func newWorld(sizes map[string]signals.Amount) *world {
	return &world{sizes: sizes, hangs: map[string]chan struct{}{}, asked: map[string]int{}}
}

func TestLayoutsByWhatLiesWhere(t *testing.T) {
	w := newWorld(map[string]signals.Amount{"/node": 1000, "/node/images": 1000, "/images": 2000, "/images/layers": 2000, "/layers": 3000})
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
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: runtimeAt(tc.images, tc.layers), Timeout: time.Minute}, w.ask)
		if l, ok := d.Layout(); ok {
			t.Errorf("%s before anybody was asked", l)
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

func TestWithoutARuntimeEverythingIsOneFilesystem(t *testing.T) {
	w := newWorld(map[string]signals.Amount{"/node": 1000})
	d := newDisks(DiskOptions{NodeDirectory: "/node", Timeout: time.Minute}, w.ask)
	d.Run(t.Context()) // without a runtime
	before := time.Now()
	o := observe(d)
	for s := signals.NodefsAvailable; s <= signals.ContainerfsInodesFree; s++ {
		if !o[s].Known || o[s] != o[signals.NodefsAvailable+(s-signals.NodefsAvailable)%2] || o[s].Time.Before(before) {
			t.Errorf("%s = %+v", s, o[s])
		}
	}
	if l, ok := d.Layout(); l != signals.Single || !ok || w.asks("/node") != 1 {
		t.Errorf("%s, %t, asked %d times", l, ok, w.asks("/node"))
	}
}

// TestAHangingFilesystem checks that a hanging filesystem makes only its own signals unknown.
// It occupies one goroutine however often it is queried, and delays callers by at most the
// timeout.
func TestAHangingFilesystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]signals.Amount{"/node": 1000, "/images": 2000})
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: runtimeAt("/images", "/images")}, w.ask)
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
				t.Fatalf("an observation took %s", took)
			}
			expectUnknown(t, o, signals.ImagefsAvailable, "statfs /images has not answered")
			expectUnknown(t, o, signals.ContainerfsInodesFree, "statfs /images has not answered")
			if !o[signals.NodefsAvailable].Known {
				t.Fatalf("nodefs hangs too: %+v", o[signals.NodefsAvailable])
			}
		}
		if _, _, err := d.Available(signals.Imagefs); err == nil || !strings.Contains(err.Error(), "has not answered") {
			t.Errorf("the room on it: %v", err)
		}
		if n := w.asks("/images"); n != 2 {
			t.Errorf("asked %d times, want 2: before and while it hung", n)
		}
		if l, ok := d.Layout(); l != signals.Dedicated || !ok {
			t.Errorf("the layout was forgotten: %s, %t", l, ok)
		}
		release()
		synctest.Wait()
		if o := observe(d); !o[signals.ImagefsAvailable].Known || !o[signals.ImagefsAvailable].Time.Equal(time.Now()) {
			t.Errorf("after it came back: %+v", o[signals.ImagefsAvailable])
		}
	})
}

// TestAHangingFilesystemThatIsReplaced checks that the replacement of a hanging filesystem is
// not queried either: each probe occupies at most one goroutine.
func TestAHangingFilesystemThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]signals.Amount{"/node": 1000, "/images": 2000, "/other": 3000})
		at := "/images"
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: func(ctx context.Context) (i, c []cri.Filesystem, err error) { return runtimeAt(at, at)(ctx) }}, w.ask)
		release := w.hang("/images")
		for _, at = range []string{"/images", "/other"} {
			if err := d.Locate(t.Context()); err != nil {
				t.Fatal(err)
			}
			expectUnknown(t, observe(d), signals.ImagefsAvailable, "statfs "+at+" has not answered")
		}
		if n := w.asks("/other"); n != 0 {
			t.Errorf("asked %d times beside a question that hangs", n)
		}
		release()
		synctest.Wait()
		if _, ok := d.Layout(); ok {
			t.Error("what was said of the one is taken for the other's")
		}
		if o := observe(d)[signals.ImagefsAvailable]; o.Capacity != 3000 {
			t.Errorf("after the hang: %+v", o)
		}
	})
}

func TestSizesThatKernelsReport(t *testing.T) {
	for _, tc := range []struct {
		name string
		fs   unix.Statfs_t
		want filesystem
		err  error
	}{
		{"ext4: fragments count, reserved blocks do not", unix.Statfs_t{Bsize: 4096, Frsize: 1024, Blocks: 100, Bfree: 60, Bavail: 50, Files: 10, Ffree: 4},
			filesystem{available: 50 << 10, total: 100 << 10, inodesFree: 4, inodes: 10}, nil},
		{"no fragments", unix.Statfs_t{Bsize: 512, Blocks: 8, Bavail: 8, Files: 1},
			filesystem{available: 4096, total: 4096, inodesFree: 0, inodes: 1}, nil},
		{"no limit of inodes", unix.Statfs_t{Frsize: 1, Blocks: 8, Bavail: 0},
			filesystem{available: 0, total: 8, inodesFree: NoInodeLimit, inodes: NoInodeLimit}, nil},
		{"no blocks", unix.Statfs_t{Frsize: 4096, Files: 5}, filesystem{}, errNoSize},
		{"no block size", unix.Statfs_t{Blocks: 5}, filesystem{}, errNoSize},
		{"more than there can be", unix.Statfs_t{Frsize: 4096, Blocks: 1 << 51}, filesystem{}, errAbsurdSize},
		{"below 0, in a client that does not know better", unix.Statfs_t{Frsize: 4096, Blocks: 5, Bavail: 1<<64 - 1}, filesystem{}, errAbsurdSize},
		{"inodes below 0", unix.Statfs_t{Frsize: 4096, Blocks: 5, Files: 1, Ffree: 1<<64 - 1}, filesystem{}, errAbsurdSize},
	} {
		if got, err := sized(&tc.fs); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", tc.name, got, err, tc.want, tc.err)
		}
	}
}

// TestASlowFilesystemIsKnownLate checks that a filesystem slower than every deadline is known
// as of the time of its query, for at most one minute.
func TestASlowFilesystemIsKnownLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]signals.Amount{"/node": 1000})
		d := newDisks(DiskOptions{NodeDirectory: "/node"}, w.ask)
		asked := time.Now()
		release := w.hang("/node")
		expectUnknown(t, observe(d), signals.NodefsAvailable, "has not answered")
		release()
		synctest.Wait()
		release = w.hang("/node")
		defer func() { release() }()
		<-time.After(lateFor - 3*defaultDiskTimeout)
		if o := observe(d)[signals.NodefsAvailable]; !o.Known || !o.Time.Equal(asked) {
			t.Errorf("the late answer: %+v, want one of %s", o, asked)
		}
		expectUnknown(t, observe(d), signals.NodefsAvailable, "has not answered")
	})
}

// TestAvailableIsNotOlderThanTheQuestion checks that a collector receives the available space
// after its work, even while an earlier observation is pending.
func TestAvailableIsNotOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]signals.Amount{"/node": 1000})
		d := newDisks(DiskOptions{NodeDirectory: "/node"}, w.ask)
		release := w.hang("/node")
		go observe(d)
		synctest.Wait()
		<-time.After(time.Millisecond)
		go func() {
			<-time.After(time.Millisecond)
			release()
		}()
		available, capacity, err := d.Available(signals.Nodefs)
		if n := w.asks("/node"); available != 500 || capacity != 1000 || err != nil || n != 2 {
			t.Errorf("%d of %d, %v, asked %d times, want twice", available, capacity, err, n)
		}
		for _, fs := range []signals.Filesystem{signals.NoFilesystem, 9} {
			if _, _, err := d.Available(fs); err == nil {
				t.Errorf("filesystem %d has room", fs)
			}
		}
	})
}

func TestPlacesAreKeptWhileTheRuntimeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(map[string]signals.Amount{"/node": 1000, "/images": 2000, "/other": 3000})
		var mu sync.Mutex
		at, fault := "", errors.New("connection refused")
		say := func(dir string, err error) {
			mu.Lock()
			defer mu.Unlock()
			at, fault = dir, err
		}
		tell := func(context.Context) (i, c []cri.Filesystem, err error) {
			mu.Lock()
			defer mu.Unlock()
			return []cri.Filesystem{{Mountpoint: at}}, nil, fault
		}
		d := newDisks(DiskOptions{NodeDirectory: "/node", Filesystems: tell}, w.ask)
		expectUnknown(t, observe(d), signals.ImagefsAvailable, "has not told yet")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.Run(ctx)
		synctest.Wait()
		expectUnknown(t, observe(d), signals.ImagefsInodesFree, "connection refused")
		if _, _, err := d.Available(signals.Containerfs); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("the room on containerfs: %v", err)
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
			say(step.dir, step.fault)
			<-time.After(2 * askRegularly)
			o := observe(d)
			if o[signals.ImagefsAvailable].Capacity != step.want || o[signals.ContainerfsAvailable].Capacity != step.want {
				t.Errorf("%+v: %+v", step, o[signals.ImagefsAvailable])
			}
		}
	})
}

// TestNoInodeLimitIsNeverPressure checks that a filesystem without an inode limit meets no
// threshold and lets a True condition end. The kubelet reads the 0 inodes of btrfs as
// exhaustion.
func TestNoInodeLimitIsNeverPressure(t *testing.T) {
	policy, err := eviction.NewPolicy(eviction.Settings{TransitionPeriod: time.Minute, Thresholds: []eviction.Threshold{
		{Signal: signals.NodefsInodesFree, Value: eviction.Value{Fraction: 0.99999999, Percent: "99.999999%"}},
		{Signal: signals.NodefsInodesFree, Value: eviction.Value{Quantity: signals.Quantity{Value: NoInodeLimit}}, MinReclaim: eviction.Value{Quantity: signals.Quantity{Value: NoInodeLimit}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	machine := eviction.New(policy)
	look := func(at time.Time, free, limit signals.Amount) eviction.Verdict {
		s := signals.Snapshot{At: at}
		s.Node[signals.NodefsInodesFree] = signals.Observed(free, limit, at)
		s.Node[signals.ContainerfsInodesFree] = s.Node[signals.NodefsInodesFree]
		return machine.Evaluate(&s)
	}
	if v := look(noon, 0, 1000); v.Target == nil || !v.Conditions.Has(signals.DiskPressure) {
		t.Fatalf("without free inodes: %+v", v)
	}
	v := look(noon.Add(2*time.Minute), NoInodeLimit, NoInodeLimit)
	if v.Target != nil || v.Met != 0 || v.Unknown != 0 || v.Conditions.Has(signals.DiskPressure) {
		t.Errorf("without a limit of inodes: %+v", v)
	}
}

func TestDirectoriesThatAreNotThere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	expectUnknown(t, observe(OpenDisks(DiskOptions{NodeDirectory: missing, Timeout: time.Minute})), signals.NodefsAvailable, "check the path")
	expectUnknown(t, observe(OpenDisks(DiskOptions{HostRoot: missing, NodeDirectory: "/", Timeout: time.Minute})), signals.NodefsInodesFree, "check the path")
	expectUnknown(t, observe(OpenDisks(DiskOptions{NodeDirectory: "/proc", Timeout: time.Minute})), signals.NodefsAvailable, "no size")
}

// TestLinksBelowTheHostsRoot checks that in a container a symbolic link of the host resolves as
// on the host.
func TestLinksBelowTheHostsRoot(t *testing.T) {
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
