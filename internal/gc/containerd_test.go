package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// real is a node with a real containerd, and a small file system of its own for images and writable
// layers.
type real struct {
	t     *testing.T
	node  *cluster.Node
	mu    sync.Mutex
	pods  known
	lines []string
}

const (
	diskSize  = 700 * mib
	imageSize = 20 * mib // twice that on disk: packed and unpacked
)

func newReal(t *testing.T) *real {
	t.Helper()
	c := cluster.Make(t, cluster.Options{Components: cluster.Containerd, Node: cluster.NodeOptions{ImageFilesystem: cluster.Filesystem{Size: diskSize}}})
	return &real{t: t, node: c.Node, pods: known{}}
}

func (r *real) collector(socket string, o Options) *Collector {
	r.t.Helper()
	client, err := cri.Open(cri.Options{Endpoint: socket})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = client.Close() })
	return New(client, r.disk, r, r, slog.New(slog.DiscardHandler), o)
}

func (r *real) disk(context.Context) (available, capacity int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.node.ContainerdRoot, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// space returns the available bytes.
func (r *real) space() int64 {
	r.t.Helper()
	available, _, err := r.disk(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return available
}

// awaitSpace waits until containerd has freed the space of what it removed: it does so after its
// answer.
func (r *real) awaitSpace(bytes int64) {
	r.t.Helper()
	tick := time.NewTicker(pollEvery) // statfs has no event
	defer tick.Stop()
	end, grown, last := time.Now().Add(cluster.Patience(time.Minute)), time.Now(), r.space()
	// As the collector does, it waits until containerd has deleted every file.
	for last < bytes || time.Since(grown) < quiet {
		if time.Now().After(end) {
			r.t.Fatalf("%d bytes are available, want %d", last, bytes)
		}
		<-tick.C
		if now := r.space(); now >= last+noise {
			grown, last = time.Now(), now
		}
	}
}

func (r *real) atLeast(bytes int64) func() bool {
	return func() bool { return r.space() >= bytes }
}

func (r *real) Pod(uid string) PodState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[uid]
}

func (r *real) Complete() bool               { return true }
func (r *real) Event(reason, message string) { r.note(reason + ": " + message) }
func (r *real) Collected(kind string, n int) { r.note(fmt.Sprint(kind, " ", n)) }
func (r *real) Freed(signals.Garbage, int64) {}

func (r *real) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// run starts a pod that the owners report as active.
func (r *real) run(name, image string) *cluster.Pod {
	r.t.Helper()
	hog := cluster.Hog(name)
	hog.Spec.Containers[0].Image = image
	pod, err := r.node.AddPod(r.t.Context(), hog)
	if err != nil {
		r.t.Fatal(err)
	}
	r.setState(pod, Active)
	return pod
}

func (r *real) setState(pod *cluster.Pod, state PodState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID()] = state
}

// writes makes the pod's container write into its writable layer.
func (r *real) writes(pod *cluster.Pod, bytes int64) {
	r.t.Helper()
	f, err := os.Create(r.rootOf(pod) + "written")
	if err == nil {
		_, err = f.Write(make([]byte, bytes))
		err = errors.Join(err, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// rootOf returns the root directory of the pod's container. The runtime reports a container as started while
// its process has yet to execute the program.
func (r *real) rootOf(pod *cluster.Pod) string {
	r.t.Helper()
	tick := time.NewTicker(pollEvery) // execve has no event
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		pids, err := pod.PIDs()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, pid := range pids {
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			root := fmt.Sprintf("/proc/%d/root/", pid)
			if _, statErr := os.Stat(root + "orders"); err == nil && statErr == nil && filepath.Base(exe) == "workload" {
				return root // not of the sandbox
			}
		}
		if time.Since(begun) > time.Minute {
			r.t.Fatalf("no process of container main among %v", pids)
		}
	}
}

// images returns the names of the runtime's images with a prefix.
func (r *real) images(c *Collector, prefix string) (names []string) {
	r.t.Helper()
	images, err := c.runtime.Images(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, img := range images {
		for _, tag := range img.Tags {
			if name, found := strings.CutPrefix(tag, "plimsoll.test/"); found && strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (r *real) listImages(c *Collector) {
	r.t.Helper()
	if _, _, err := c.listImages(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) imports(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := r.node.Import(r.t.Context(), cluster.Image{Name: "plimsoll.test/" + name + ":1", Size: imageSize, Runs: true}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestCollector_CollectsOnContainerd(t *testing.T) {
	r := newReal(t)
	c := r.collector(r.node.Socket, Options{ImageHigh: 100, MaximumDeadPerContainer: 1, MaximumDead: -1, CallTimeout: time.Minute})
	// A busy machine may starve containerd between a removal and the deletion of its files. TestRelieve checks the usual waits.
	c.waits = waits{patience: 16 * time.Minute, quiet: time.Minute, pause: 2 * time.Second}
	r.imports("used")
	r.listImages(c)
	r.imports("dead")
	alive, dead := r.run("alive", "plimsoll.test/used:1"), r.run("dead", "plimsoll.test/dead:1")
	if err := c.killContainer(t.Context(), dead.Containers["main"]); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(*real, *Collector)
	}{
		{"oldest images first", (*real).oldestFirst},
		{"protected images", (*real).protected},
		{"dead containers", (*real).deadContainers},
		{"evicted pod", (*real).evicted},
		{"unresponsive runtime", (*real).hangs},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.t = t
			step.run(r, c)
		})
	}
	r.t = t
	if pids, err := alive.PIDs(); err != nil || len(pids) < 2 {
		t.Errorf("the active pod has processes %v (%v), want at least 2", pids, err)
	}
}

func (r *real) oldestFirst(c *Collector) {
	for _, name := range []string{"unused-c", "unused-a", "unused-b"} { // by age, which differs from the order of names
		r.imports(name)
		r.listImages(c)
	}
	// The oldest unused image is that of hogs. The others share its layers: its removal frees
	// nothing.
	// Enough are the layers of two images, packed and unpacked: once they are available, every file is deleted.
	const two = 4*imageSize - mib
	begun, before := time.Now(), r.space()
	relief := c.Free(r.t.Context(), everything, r.atLeast(before+two))
	freed := r.space() - before
	r.t.Logf("%+v after %v, statfs reports %d freed", relief, time.Since(begun), freed)
	if !relief.Enough || relief.Images != 3 || relief.Err != nil || relief.Containers != 0 {
		r.t.Errorf("got %+v", relief)
	}
	if got, want := r.images(c, "unused"), []string{"unused-b:1"}; !slices.Equal(got, want) {
		r.t.Errorf("got images %v, want %v", got, want)
	}
	// Other writes are only metadata.
	if relief.FreedBytes < two || max(relief.FreedBytes-freed, freed-relief.FreedBytes) > mib {
		r.t.Errorf("got %d bytes freed, but statfs reports %d more", relief.FreedBytes, freed)
	}
}

func (r *real) protected(c *Collector) {
	never := func() bool { return false }
	patient := r.collector(r.node.Socket, Options{MinimumImageTTL: time.Hour, MaximumDeadPerContainer: 1, MaximumDead: -1})
	if relief := patient.Free(r.t.Context(), onlyImages, never); relief.Images != 0 || relief.Err != nil {
		r.t.Errorf("images below the minimum TTL: got %+v, want none removed", relief)
	}
	keeping := r.collector(r.node.Socket, Options{Keep: func() []string { return []string{"plimsoll.test/unused-b:1"} }, MaximumDeadPerContainer: 1, MaximumDead: -1})
	if relief := keeping.Free(r.t.Context(), onlyImages, never); relief.Images != 0 || relief.Err != nil {
		r.t.Errorf("image listed in Keep: got %+v, want none removed", relief)
	}
	if relief := c.Free(r.t.Context(), onlyImages, never); relief.Images != 1 || relief.Enough || relief.Err != nil {
		r.t.Errorf("unprotected image: got %+v, want 1 removed", relief)
	}
	if got, want := r.images(c, ""), []string{"dead:1", "pause:1", "used:1"}; !slices.Equal(got, want) {
		r.t.Errorf("got images %v, want %v", got, want)
	}
}

func (r *real) deadContainers(c *Collector) {
	ended, gone := r.run("ended", "plimsoll.test/used:1"), r.run("gone", "plimsoll.test/used:1")
	const written = 30 * mib
	empty := r.space()
	for _, pod := range []*cluster.Pod{ended, gone} {
		r.writes(pod, written)
		if err := errors.Join(c.killContainer(r.t.Context(), pod.Containers["main"]), c.runtime.StopSandbox(r.t.Context(), pod.Sandbox)); err != nil {
			r.t.Fatal(err)
		}
	}
	r.setState(ended, Ended)
	r.setState(gone, Unknown)
	c.containerRound(r.t.Context())
	if got, want := r.left(c), []string{"alive", "dead", "ended"}; !slices.Equal(got, want) {
		r.t.Errorf("after a round: got containers of %v, want %v", got, want)
	}
	r.awaitSpace(empty - written - mib) // space of the round that is freed later would satisfy atLeast
	begun, before := time.Now(), r.space()
	relief := c.Free(r.t.Context(), onlyContainers, r.atLeast(before+written))
	r.t.Logf("%+v after %v", relief, time.Since(begun))
	if !relief.Enough || relief.Containers != 1 || relief.FreedBytes < written || relief.Err != nil {
		r.t.Errorf("got %+v", relief)
	}
	if got, want := r.left(c), []string{"alive", "dead"}; !slices.Equal(got, want) {
		r.t.Errorf("under pressure: got containers of %v, want %v", got, want)
	}
}

// left returns the names of pods with containers.
func (r *real) left(c *Collector) (names []string) {
	r.t.Helper()
	containers, err := c.runtime.Containers(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range containers {
		names = append(names, k.PodName)
	}
	slices.Sort(names)
	return names
}

func (r *real) evicted(c *Collector) {
	pod := r.run("evicted", "plimsoll.test/used:1")
	before := r.space()
	r.writes(pod, 30*mib)
	begun := time.Now()
	if err := c.RemovePod(r.t.Context(), pod.UID()); err != nil {
		r.t.Fatal(err)
	}
	removed := time.Since(begun)
	if got, want := r.left(c), []string{"alive", "dead"}; !slices.Equal(got, want) {
		r.t.Errorf("got containers of %v, want %v", got, want)
	}
	sandboxes, err := c.runtime.Sandboxes(r.t.Context())
	if err != nil || slices.ContainsFunc(sandboxes, func(s cri.Sandbox) bool { return s.UID == pod.UID() }) {
		r.t.Errorf("got sandboxes %v (%v), want none of the pod", sandboxes, err)
	}
	r.awaitSpace(before - mib)
	r.t.Logf("removed after %v, space freed after %v", removed, time.Since(begun))
}

func (r *real) hangs(*Collector) {
	c := r.collector(r.node.Link.Address(), Options{MaximumDeadPerContainer: 1, MaximumDead: -1, CallTimeout: time.Minute})
	r.listImages(c)
	seen := len(c.seen)
	r.node.Link.Stall()
	c.options.CallTimeout = time.Second
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute) // bounds this test; TestRelieve_EndsIfRuntimeHangs checks the time
	defer cancel()
	if relief := c.Free(ctx, everything, func() bool { return false }); !errors.Is(relief.Err, errSilent) || ctx.Err() != nil || len(c.seen) != seen {
		r.t.Errorf("got %+v, context error %v, %d sightings, want %d", relief, ctx.Err(), len(c.seen), seen)
	}
	c.options.CallTimeout = time.Minute
	if err := r.node.Link.Pass(); err != nil {
		r.t.Fatal(err)
	}
	if relief := c.Free(r.t.Context(), onlyContainers, func() bool { return false }); relief.Err != nil {
		r.t.Errorf("runtime responds again: got error %v", relief.Err)
	}
}
