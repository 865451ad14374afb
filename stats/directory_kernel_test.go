package stats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestDirectories_EntersNoMount checks that mounts in a volume do not count for the pod: neither
// another filesystem nor a part of the same one.
func TestDirectories_EntersNoMount(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	host := newDisk(t)
	p := host.pod("u1")
	outside := host.root + "/outside"
	writeFile(t, outside+"/file", 1<<20)
	writeFile(t, host.volume("u1")+"/mine", 1<<12)
	writeFile(t, host.volume("u1")+"/bound-file", 0)
	bytes, inodes := du(t, host.volume("u1"))
	writeFile(t, tmpfs(t, host.volume("u1")+"/tmpfs", "")+"/file", 1<<20)
	mount(t, outside, host.volume("u1")+"/bind", "", unix.MS_BIND, "")
	if err := unix.Mount(outside+"/file", host.volume("u1")+"/bound-file", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(host.volume("u1")+"/bound-file", unix.MNT_DETACH) //nolint:errcheck // the namespace ends, too
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	// The file below the mount is not visible either.
	if v := merged(d, &p).Volume("cache"); v.Bytes != signals.Of(signals.Bytes(bytes)) || v.Inodes != signals.Of(signals.Inodes(inodes-1)) {
		t.Errorf("%+v, want %d bytes, %d inodes", v, bytes, inodes-1)
	}
}

// TestDirectories_AbandonsHangingWalk checks that a hanging walk affects one pod only. Measure
// returns in time with all other pods measured, and the error ends with the hang.
func TestDirectories_AbandonsHangingWalk(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	host := newDisk(t)
	fine, dead, last := host.pod("a"), host.pod("b"), host.pod("c")
	end := hangingMount(t, host.own("b"))
	dead.Containers = nil // the first directory of its walk hangs
	d := host.open(DirectoryOptions{})
	before := runtime.NumGoroutine()
	for i := range 4 {
		writeFile(t, fmt.Sprint(host.volume("c"), "/", i), 1<<20)
		var err error
		if pods := []signals.Pod{fine, dead, last}; i > 0 {
			err = d.Measure(t.Context(), pods)
		} else { // the round waits for the hanging walk only, not for the low-priority walks, which may be starved
			todo := d.plan(pods)
			todo[1].time = 5 * time.Second
			err = d.round(t.Context(), todo)
		}
		if err == nil || !strings.Contains(err.Error(), "1 of 3 not completely") || !strings.Contains(err.Error(), "b/volumes/kubernetes.io~empty-dir/cache has not answered in time") {
			t.Errorf("%v", err)
		}
		if v := merged(d, &last).Volume("cache"); v.Bytes.Value < signals.Bytes(i+1)<<20 || v.Incomplete != "" {
			t.Errorf("round %d: the pod after the hanging one has %+v", i, v)
		}
	}
	// That of the last round exits shortly after its result.
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Fatalf("got %d goroutines, %d before, want one that hangs and one for the next round", n, before)
	}
	if merged(d, &fine) == nil || merged(d, &dead) != nil {
		t.Error("got no usage of a finished pod, or usage of the hanging one")
	}
	c := []signals.Candidate{{Pod: &dead, Usage: &signals.Usage{Memory: signals.Of[signals.Bytes](5)}}}
	if d.Merge(c); !strings.Contains(c[0].Usage.Volume("cache").Incomplete, "has not answered in time") || c[0].Usage.Volume("cache").Bytes.Known {
		t.Errorf("the hanging pod has %+v", c[0].Usage)
	}
	end()
	for d.mayWalk("b") != nil {
		runtime.Gosched()
	}
	if err := d.Measure(t.Context(), []signals.Pod{fine, dead}); err == nil || !strings.Contains(err.Error(), "1 of 2 not completely") || strings.Contains(err.Error(), "in time") {
		t.Errorf("after the hang: %v", err)
	}
	if len(d.idle) != 2 {
		t.Errorf("%d threads are kept, want that of the rounds and the one that hung", len(d.idle))
	}
}

// TestDirectories_AvoidsForeignMount checks that a filesystem mounted by a pod over its volume
// is not accessed.
func TestDirectories_AvoidsForeignMount(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	host := newDisk(t)
	dead, last := host.pod("a"), host.pod("b")
	hangingMount(t, host.volume("a"))
	writeFile(t, host.volume("b")+"/file", 1<<20)
	tmpfs(t, host.volume("b"), "") // the kubelet's own
	writeFile(t, host.volume("b")+"/file", 1<<16)
	d := host.open(DirectoryOptions{})
	if err := d.Measure(t.Context(), []signals.Pod{dead, last}); err == nil || !strings.Contains(err.Error(), "a filesystem of type fuse is mounted on it") {
		t.Errorf("%v", err)
	}
	if len(d.hanging) != 0 {
		t.Error("the walk accessed the mount and hangs")
	}
	if v := merged(d, &dead).Volume("cache"); v.Bytes.Known || !strings.Contains(v.Incomplete, "fuse") {
		t.Errorf("%+v", v)
	}
	if v := merged(d, &last).Volume("cache"); v.Bytes.Value < 1<<16 || v.Incomplete != "" {
		t.Errorf("%+v", v)
	}
}

// TestDirectories_RunsOneRoundAtATime checks that a second round waits for the first, within
// its own deadline.
func TestDirectories_RunsOneRoundAtATime(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d := host.open(DirectoryOptions{Layers: func(context.Context) ([]cri.ContainerStats, error) {
		once.Do(func() {
			close(started)
			<-release
		})
		return nil, nil
	}})
	first := make(chan error)
	go func() { first <- d.Measure(context.Background(), []signals.Pod{p}) }()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Measure(ctx, []signals.Pod{p}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second round at its deadline: %v", err)
	}
	second := make(chan error)
	go func() { second <- d.Measure(context.Background(), []signals.Pod{p}) }()
	close(release)
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
}

// TestDirectories_ToleratesVanishingFiles checks that concurrent changes by a workload are no
// error: remaining files are counted, and removed ones are not.
func TestDirectories_ToleratesVanishingFiles(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	at := host.volume("u1")
	for i := range 20 {
		writeFile(t, fmt.Sprint(at, "/remaining/", i, "/file"), 4096)
	}
	remaining, inodes := du(t, at)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer func() {
		close(stop)
		busy.Wait()
	}() // before the directory is removed, also in a failed test
	for w := range 2 {
		busy.Go(func() { churn(fmt.Sprint(at, "/churn", w), stop) })
	}
	d := host.open(DirectoryOptions{})
	busy.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				merged(d, &p)
				d.Age("u1")
			}
		}
	})
	var maxInodes signals.Inodes
	for round := 0; round < 60 || maxInodes == signals.Inodes(inodes); round++ { // until a vanishing entry is counted
		measure(t, d, p)
		v := merged(d, &p).Volume("cache")
		if maxInodes = max(maxInodes, v.Inodes.Value); v.Bytes.Value < signals.Bytes(remaining) || v.Inodes.Value < signals.Inodes(inodes) || v.Inodes.Value > signals.Inodes(inodes)+1000 {
			t.Fatalf("got %+v, the remaining files have %d bytes, %d inodes", v, remaining, inodes)
		}
	}
}

// churn creates and removes files, directories and links in each other's place.
func churn(dir string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			_ = os.RemoveAll(dir)
			return
		default:
		}
		name := fmt.Sprint(dir, "/", i%7)
		_ = os.RemoveAll(name)
		switch i % 3 {
		case 0:
			_ = os.MkdirAll(name+"/a/b/c", 0o755)
			_ = os.WriteFile(name+"/a/file", make([]byte, 5000), 0o600)
		case 1:
			_ = os.WriteFile(name, nil, 0o600)
		case 2:
			_ = os.Symlink("/", name)
		}
	}
}

// TestWalker_NamesUnreadableDirectory checks that an unreadable directory makes a lower bound
// and is named.
func TestWalker_NamesUnreadableDirectory(t *testing.T) {
	sandbox.Demand(t, "the rights of another user can not be used", root())
	dir := t.TempDir()
	writeFile(t, dir+"/tree/file", 4096)
	writeFile(t, dir+"/tree/closed/file", 4096)
	all, _ := du(t, dir+"/tree/file")
	if err := errors.Join(os.Chmod(dir+"/tree", 0o755), os.Chmod(dir+"/tree/closed", 0o700)); err != nil {
		t.Fatal(err)
	}
	w := &walker{ctx: t.Context(), links: map[link]struct{}{}}
	w.start(time.Now().Add(time.Minute), 1000)
	top, err := unix.Open(dir, openFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top) //nolint:errcheck // nothing was written
	var inside, denied error
	asUnprivileged(func() {
		_, inside = w.tree(top, "tree", nil)
		other := &walker{ctx: t.Context(), until: w.until, left: 1000}
		_, denied = other.tree(top, "tree/closed/file", nil)
	})
	if inside != nil || w.cut == nil || !strings.Contains(w.cut.Error(), `stat "closed": permission denied`) {
		t.Errorf("%v, %v", inside, w.cut)
	}
	if w.inodes != 3 || w.bytes < all {
		t.Errorf("got %d inodes, %d bytes, want the directory, the file and the closed directory", w.inodes, w.bytes)
	}
	if !errors.Is(denied, unix.EACCES) {
		t.Errorf("below a closed directory: %v", denied)
	}
}

// Entries of the other pass are skipped, and take time too: files in the pass that counts directories.
func TestWalker_ChecksTimeAmongSkippedEntries(t *testing.T) {
	dir := t.TempDir()
	for i := range 2000 {
		writeFile(t, fmt.Sprintf("%s/%0100d", dir, i), 0)
	}
	fd, err := unix.Open(dir, openFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	w := &walker{ctx: t.Context(), levels: [][]byte{make([]byte, listBytes)}}
	at := step{pass: passes - 1}
	w.start(time.Now(), 1)
	if w.pass(fd, 0, &at); !errors.Is(w.stopped, errPodTime) || at.offset == 0 {
		t.Errorf("without time: %v at %+v, want a stop with progress", w.stopped, at)
	}
	w.start(time.Now().Add(time.Minute), 1)
	if w.pass(fd, 0, &at); w.stopped != nil {
		t.Errorf("with time: %v", w.stopped)
	}
}

// asUnprivileged runs f on a thread without rights to files, and ends the thread.
func asUnprivileged(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		_, _ = unix.SetfsuidRetUid(65534)
		f()
	}()
	<-done
}

// TestDirectories_StopsAtMaxDepth checks that beyond the maximum depth only the first directory
// is counted.
func TestDirectories_StopsAtMaxDepth(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	const deep = maxDepth + 20
	if err := os.MkdirAll(filepath.Join(host.volume("u1"), strings.Repeat("d/", deep)), 0o755); err != nil {
		t.Fatal(err)
	}
	d := host.open(DirectoryOptions{})
	if err := d.Measure(t.Context(), []signals.Pod{p}); err == nil || !strings.Contains(err.Error(), "deep are not counted") {
		t.Errorf("%v", err)
	}
	if v := merged(d, &p).Volume("cache"); v.Inodes != signals.Of[signals.Inodes](maxDepth+1) {
		t.Errorf("%+v", v)
	}
}

// TestDirectories_ReleasesDescriptorsAndThread checks that descriptors and the low-priority
// thread are released.
func TestDirectories_ReleasesDescriptorsAndThread(t *testing.T) {
	if !inOwnProcess(t, 0) { // an earlier cAdvisor opens files
		return
	}
	host := newDisk(t)
	p := host.pod("u1")
	fill(t, host.volume("u1"))
	d := host.open(DirectoryOptions{})
	measure(t, d, p)
	before := descriptorsOpen(t)
	for range 5 {
		measure(t, d, p)
	}
	if after := descriptorsOpen(t); after > before {
		t.Errorf("got %d open descriptors, want at most %d", after, before)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self := make(chan int)
	go func() {
		runtime.LockOSThread()
		yield()
		n, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		self <- n
	}()
	// The kernel returns 20 - nice.
	if n := <-self; n != 10 && n >= nice {
		t.Errorf("a yielding thread has priority %d, others %d", n, nice)
	}
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// BenchmarkWalk walks 10,000 files in 100 directories, which are in the kernel's caches.
func BenchmarkWalk(b *testing.B) {
	host := newDisk(b)
	pod := host.pod("u1")
	for i := range 100 {
		dir := fmt.Sprint(host.volume("u1"), "/", i)
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		emptyFiles(b, dir, 100)
	}
	d := host.open(DirectoryOptions{})
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		measure(b, d, pod)
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op") // a walk runs at low priority: its elapsed time depends on other load
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func BenchmarkMergeDisksOf110Pods(b *testing.B) {
	host := newDisk(b)
	var pods []signals.Pod
	for i := range 110 {
		pods = append(pods, host.pod(fmt.Sprint("u", i)))
	}
	d := host.open(DirectoryOptions{})
	measure(b, d, pods...)
	candidates := make([]signals.Candidate, len(pods))
	b.ReportAllocs()
	for b.Loop() {
		for i := range pods {
			candidates[i] = signals.Candidate{Pod: &pods[i]}
		}
		d.Merge(candidates)
	}
}
