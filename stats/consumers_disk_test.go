package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// mounting returns a pod with hostPaths.
func mounting(name string, paths ...string) signals.Pod {
	return signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name, HostPaths: paths}
}

// consumers returns the consumers of the disk of a host.
func (d disk) consumers(o DiskOptions) *DiskConsumers {
	d.t.Helper()
	o.HostRoot, o.NodeDirectory, o.Timeout = d.root, "/var/lib/kubelet", time.Minute
	disks := OpenDisks(o)
	if o.Filesystems != nil {
		if err := disks.Locate(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	observe(disks)
	return NewDiskConsumers(disks, d.open(DirectoryOptions{Layers: func(context.Context) ([]cri.ContainerStats, error) {
		return []cri.ContainerStats{{ID: "app", WritableBytes: cri.Used{Value: 1 << 20, Known: true}, WritableInodes: cri.Used{Value: 10, Known: true}}}, nil
	}}))
}

// of returns the consumers of space, with 100 MiB in use of which pods have 1 MiB.
func (d disk) of(c *DiskConsumers, active ...signals.Pod) signals.Consumption {
	return c.Measure(d.t.Context(), UsedFilesystem{Signal: signals.NodefsAvailable, Used: 100 * mib,
		Pods: signals.Consumer{Name: "pods", Kind: signals.ConsumerPods, Amount: mib}, Active: active})
}

// find returns the consumer of a name.
func find(t *testing.T, found []signals.Consumer, name string) signals.Consumer {
	t.Helper()
	i := slices.IndexFunc(found, func(c signals.Consumer) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("%s is missing in %+v", name, found)
	}
	return found[i]
}

// ofPods returns what was not measured, without the directories that a node may not have.
func ofPods(unmeasured []string) []string {
	return slices.DeleteFunc(slices.Clone(unmeasured), func(text string) bool { return strings.HasPrefix(text, "directories of the node not visible") })
}

// near reports whether an amount is that of files, or little more for their directories.
func near(got, want signals.Amount) bool { return got >= want && got <= want+want/4+64<<10 }

// Re-enacts k#127548: a pod fills the disk through a hostPath, and no pod's usage contains it.
func TestDiskConsumers_NameWriterToHostPath(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.root+"/data/big", 40*mib)
	writeFile(t, host.root+"/var/log/messages", 3*mib)
	writeFile(t, host.root+"/var/log/pods/ns_p_uid/app/0.log", 9*mib) // counts as the pod's
	writeFile(t, host.root+"/var/log/journal/1/system.journal", 5*mib)
	writeFile(t, host.root+"/opt/other", 2*mib)
	got := host.of(host.consumers(DiskOptions{}), mounting("reader", "/etc"), mounting("writer", "/data"))
	t.Logf("%+v", got)
	if c := got.Largest[0]; c.Kind != signals.ConsumerUnaccounted || c.Amount > 51*mib || c.Amount < 49*mib {
		t.Errorf("unaccounted: %+v, want 51 MiB less the directories", c)
	}
	if c := got.Largest[1]; c.Kind != signals.ConsumerHostPath || c.Name != "/data" || c.Pod != "default/writer" || c.Pods != 0 || c.Incomplete != "" || !near(c.Amount, 40*mib) {
		t.Errorf("the hostPath: %+v", c)
	}
	for name, want := range map[string]signals.Amount{"/var/log": 3 * mib, "/var/log/journal": 5 * mib, "pods": mib} {
		if c := find(t, got.Largest, name); !near(c.Amount, want) || c.Pod != "" {
			t.Errorf("%s: %+v, want %d MiB", name, c, want/mib)
		}
	}
	if !slices.Equal(got.Unmeasured, []string{"hostPaths not visible to the agent (1): /etc (default/reader)",
		"directories of the node not visible to the agent (8): /var/lib/systemd/coredump, /var/crash, /var/cache, ..."}) {
		t.Errorf("unmeasured: %q", got.Unmeasured)
	}
}

// Each file counts in one directory, whatever contains and links to it.
func TestDiskConsumers_CountFilesOnce(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.root+"/data/a", 8*mib)
	writeFile(t, host.root+"/data/inner/b", 4*mib)
	if err := errors.Join(os.Symlink("/data/inner", host.root+"/link"), os.Symlink("data", host.root+"/again")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, host.root+"/file", 2*mib)
	c := host.consumers(DiskOptions{})
	for range 2 {
		got := host.of(c, mounting("a", "/data", "/data/"), mounting("b", "/link", "/file"), mounting("c", "/data/inner", "/again"), mounting("d", "/tmp/none", "relative"))
		for name, want := range map[string]signals.Consumer{
			"/data": {Amount: 8 * mib, Pod: "default/a", Pods: 2}, "/link": {Amount: 4 * mib, Pod: "default/b", Pods: 2}, "/file": {Amount: 2 * mib, Pod: "default/b"},
		} {
			if c := find(t, got.Largest, name); !near(c.Amount, want.Amount) || c.Pod != want.Pod || c.Pods != want.Pods || c.Kind != signals.ConsumerHostPath {
				t.Errorf("%s: %+v, want %+v", name, c, want)
			}
		}
	}
}

// A hostPath above the directories of pods or images is not walked, and neither is one in them.
func TestDiskConsumers_SkipBroadHostPaths(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.volume("u1")+"/file", mib)
	writeFile(t, host.root+"/var/lib/kubelet/plugins/x/file", 2*mib)
	got := host.of(host.consumers(DiskOptions{}), mounting("observer", "/", "/var/log"), mounting("csi", "/var/lib/kubelet/pods/u1", "/var/lib/kubelet", "/proc/1", "/run/x"))
	if !slices.Equal(ofPods(got.Unmeasured), []string{"hostPaths that contain directories of pods or images, or are in them (2): / (default/observer), /var/lib/kubelet/pods/u1 (default/csi)"}) {
		t.Errorf("unmeasured: %q", got.Unmeasured)
	}
	// The node's own directories are measured without those of pods, and have the pod's name too.
	if c := find(t, got.Largest, "/var/lib/kubelet"); c.Pod != "default/csi" || c.Kind != signals.ConsumerDirectory || !near(c.Amount, 2*mib) {
		t.Errorf("%+v", c)
	}
}

// A symbolic link, which a pod may have made, leads neither into directories of pods nor to all files.
func TestDiskConsumers_SkipLinksToPods(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.volume("u1")+"/file", 6*mib)
	for name, to := range map[string]string{"/pods": "/var/lib/kubelet/pods", "/volumes": "/var/lib/kubelet/pods/u1/volumes", "/all": "/"} {
		if err := os.Symlink(to, host.root+name); err != nil {
			t.Fatal(err)
		}
	}
	got := host.of(host.consumers(DiskOptions{}), mounting("a", "/pods"), mounting("b", "/volumes"), mounting("c", "/all"))
	for _, c := range got.Largest {
		if c.Kind == signals.ConsumerHostPath {
			t.Errorf("counts twice: %+v", c)
		}
	}
	if text := strings.Join(got.Unmeasured, "\n"); !strings.Contains(text, "or are in them (2): /pods (default/a), /volumes (default/b)") || strings.Contains(text, "not reached") {
		t.Errorf("unmeasured: %s", text)
	}
}

// While a directory of pods does not answer, it is not known which directories are its own. Those above
// it would count it twice.
func TestDiskConsumers_SkipDirectoriesAroundHangingOne(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.volume("u1")+"/file", 6*mib)
	writeFile(t, host.root+"/data/file", 5*mib)
	c := host.consumers(DiskOptions{})
	c.directories.hanging["/var/lib/kubelet/pods"] = &walking{where: "/var/lib/kubelet/pods"}
	got := host.of(c, mounting("writer", "/data"))
	if w := find(t, got.Largest, "/data"); !near(w.Amount, 5*mib) {
		t.Errorf("%+v", w)
	}
	if i := slices.IndexFunc(got.Largest, func(c signals.Consumer) bool { return c.Name == "/var/lib/kubelet" }); i >= 0 {
		t.Errorf("counts pods twice: %+v", got.Largest[i])
	}
	if text := strings.Join(got.Unmeasured, "\n"); !strings.Contains(text, "directories without an answer (1): /var/lib/kubelet; the first: a directory in it") {
		t.Errorf("unmeasured: %s", text)
	}
}

func TestDiskConsumers_CountImagesOfRuntime(t *testing.T) {
	host := newDisk(t)
	const snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
	writeFile(t, host.root+snapshots+"/snapshots/1/fs/layer", 30*mib) // not walked: the runtime measures it
	writeFile(t, host.root+"/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/abc", 6*mib)
	usage := cri.Filesystem{Mountpoint: snapshots, UsedBytes: 21 * mib, UsedInodes: 210, UsageKnown: true}
	var fault error
	c := host.consumers(DiskOptions{Filesystems: func(context.Context) (i, l []cri.Filesystem, err error) {
		return []cri.Filesystem{usage}, []cri.Filesystem{usage}, fault
	}})
	if err := c.directories.readLayers(t.Context()); err != nil {
		t.Fatal(err)
	}
	const name = "images and unreported layers"
	for signal, want := range map[signals.Signal]signals.Amount{signals.NodefsAvailable: 20 * mib, signals.ImagefsInodesFree: 200} {
		got := c.Measure(t.Context(), UsedFilesystem{Signal: signal, Used: 100 * mib, Active: []signals.Pod{mounting("a", "/var/lib/containerd")}})
		if c := find(t, got.Largest, name); c.Kind != signals.ConsumerImages || c.Amount != want {
			t.Errorf("%s: %+v, want %d", signal, c, want)
		}
		content := find(t, got.Largest, "/var/lib/containerd/io.containerd.content.v1.content")
		if signal == signals.NodefsAvailable && !near(content.Amount, 6*mib) || signal != signals.NodefsAvailable && content.Amount != 4 {
			t.Errorf("%s: compressed images: %+v", signal, content)
		}
		if text := ofPods(got.Unmeasured); len(text) != 1 || !strings.Contains(text[0], "/var/lib/containerd (default/a)") {
			t.Errorf("unmeasured: %q", got.Unmeasured)
		}
	}
	fault = errors.New("the runtime hangs")
	if got := host.of(c); !slices.Equal(ofPods(got.Unmeasured), []string{"images: the runtime hangs"}) {
		t.Errorf("unmeasured: %q", got.Unmeasured)
	}
	usage.UsageKnown, fault = false, nil
	if got := host.of(c); len(ofPods(got.Unmeasured)) != 1 || !strings.Contains(got.Unmeasured[0], "does not report their usage") {
		t.Errorf("unmeasured: %q", got.Unmeasured)
	}
}

// In a container the directories above the mounted ones are those of the container, on another
// filesystem. They are not the host's.
func TestDirectories_DistinguishContainerFromHost(t *testing.T) {
	host := newDisk(t)
	writeFile(t, host.root+"/data/file", 1)
	for root, want := range map[string]error{host.root: fs.ErrNotExist, "/": errOtherFilesystem} {
		d := OpenDirectories(DirectoryOptions{HostRoot: root, HostTime: time.Minute, HostRoundTime: time.Minute})
		at := "/data"
		if root == "/" {
			at = host.root + at
		}
		if got := d.measureHost(t.Context(), identity{device: 1 << 40}, []string{at}, nil); !errors.Is(got[0].err, want) || got[0].known {
			t.Errorf("below %s: %+v, want %v", root, got[0], want)
		}
	}
}

func TestDiskConsumers_UnknownFilesystem(t *testing.T) {
	host := newDisk(t)
	c := NewDiskConsumers(OpenDisks(DiskOptions{HostRoot: host.root, NodeDirectory: "/"}), host.open(DirectoryOptions{}))
	if got := host.of(c, mounting("a", "/data")); len(got.Largest) != 0 || len(got.Unmeasured) != 1 {
		t.Errorf("%+v", got)
	}
}

// Pods with very many hostPaths, some of them with hostile names, bound neither the time nor the memory
// of a search, and do not hide the hostPath of another pod.
func TestDiskConsumers_BoundHostileHostPaths(t *testing.T) {
	host := newDisk(t)
	const bad = "/\x1b]0;bad\a\u202e"
	long := strings.Repeat("/"+strings.Repeat("n", 199), 5)
	writeFile(t, host.root+bad+"/file", 9*mib)
	writeFile(t, host.root+long+"/file", 8*mib)
	writeFile(t, host.root+"/data/file", 7*mib)
	var active []signals.Pod
	for i := range 40 {
		var paths []string
		for k := range 250 {
			paths = append(paths, fmt.Sprintf("/many/%d/%d", i, k))
		}
		active = append(active, mounting(fmt.Sprint("hostile-", i), paths...))
	}
	for i := range 300 {
		if err := os.MkdirAll(fmt.Sprint(host.root, "/many/", i%40, "/", i/40), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	active = append(active, mounting("named", bad, long, "/"+strings.Repeat("x", 4<<10)), mounting("writer", "/data"))
	active[0].HostPaths = append(active[0].HostPaths, "")
	c := host.consumers(DiskOptions{})
	got := host.of(c, active...)
	for _, one := range got.Largest {
		if len(one.Name) > 128 || strings.ContainsAny(one.Name, "\x1b\a\u202e") {
			t.Errorf("the name %q", one.Name)
		}
	}
	if w := find(t, got.Largest, "/data"); w.Pod != "default/writer" || !near(w.Amount, 7*mib) {
		t.Errorf("the writer: %+v", w)
	}
	if b := find(t, got.Largest, "/?]0;bad??"); b.Pod != "default/named" || !near(b.Amount, 9*mib) {
		t.Errorf("the hostile name: %+v", b)
	}
	if len(got.Largest) != signals.MaxConsumers || len(c.directories.host) > 256 || len(c.directories.hanging) != 0 {
		t.Errorf("%d consumers, %d directories stored", len(got.Largest), len(c.directories.host))
	}
	text := strings.Join(got.Unmeasured, "\n")
	for _, want := range []string{"hostPaths beyond the maximum number (", "hostPaths with a path that is too long (1): of default/hostile-0", "file name too long"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if len(text) > 4<<10 {
		t.Errorf("%d bytes of text", len(text))
	}
}

// What one measurement does not reach, the next ones do.
func TestDiskConsumers_ContinueInNextMeasurement(t *testing.T) {
	host := newDisk(t)
	for i := range 6 {
		writeFile(t, fmt.Sprint(host.root, "/data/", i, "/file"), 0)
		emptyFiles(t, fmt.Sprint(host.root, "/data/", i), 49)
	}
	c := host.consumers(DiskOptions{})
	c.directories.options.Entries = 100
	measure := func() signals.Consumer {
		got := c.Measure(t.Context(), UsedFilesystem{Signal: signals.NodefsInodesFree, Used: 1000, Active: []signals.Pod{mounting("w", "/data")}})
		return find(t, got.Largest, "/data")
	}
	first := measure()
	if first.Incomplete == "" || first.Amount < 50 || first.Amount > 150 {
		t.Errorf("after the first part: %+v", first)
	}
	var last signals.Consumer
	for range 5 {
		last = measure()
	}
	if last.Incomplete != "" || last.Amount != 307 {
		t.Errorf("after all parts: %+v, want 300 files and 7 directories", last)
	}
}

// A round for pods precedes the walk through a directory of the host, which is repeated.
func TestDirectories_PodsPrecedeHost(t *testing.T) {
	host := newDisk(t)
	p := host.pod("u1")
	d := host.open(DirectoryOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, end, err := d.acquireBeside(ctx)
	if err != nil {
		t.Fatal(err)
	}
	measured := make(chan error)
	go func() { measured <- d.Measure(ctx, []signals.Pod{p}) }()
	<-session.Done()
	if ctx.Err() != nil {
		t.Fatal("the round for pods did not end the session")
	}
	if _, _, ok := d.beginSession(ctx); ok {
		t.Error("a session has begun while a round for pods waits")
	}
	end()
	if err := <-measured; err != nil {
		t.Error(err)
	}
	calls := 0
	h := &hostRound{d: d}
	h.do(ctx, []func(*walkers){func(w *walkers) {
		if calls++; calls == 1 {
			d.await(1)
			d.await(-1)
		}
	}, func(*walkers) { calls += 10 }})
	if calls != 12 {
		t.Errorf("calls %d, want 12: the job that was ended is repeated once, and the next one follows", calls)
	}
	if d.preempt != nil || len(d.semaphore) != 0 {
		t.Error("the session has not ended")
	}
}

// The end of the time ends a measurement in which a round for pods never ends.
func TestDiskConsumers_EndWithContext(t *testing.T) {
	host := newDisk(t)
	writeFile(t, filepath.Join(host.root, "data/file"), mib)
	c := host.consumers(DiskOptions{})
	c.directories.semaphore <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := c.Measure(ctx, UsedFilesystem{Signal: signals.NodefsAvailable, Used: mib, Active: []signals.Pod{mounting("w", "/data")}})
	if text := strings.Join(got.Unmeasured, "\n"); !strings.Contains(text, "directories not reached in time (") || !strings.Contains(text, "/data (default/w)") {
		t.Errorf("unmeasured: %s", text)
	}
}
