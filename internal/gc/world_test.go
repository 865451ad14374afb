package gc

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

const mib = int64(1 << 20)

// world is a node in a synctest bubble: a runtime with a disk, the owners and the Teller. Removed
// bytes become available after lag.
type world struct {
	t  *testing.T
	mu sync.Mutex

	sandboxes  []cri.Sandbox
	containers []cri.Container
	images     []cri.Image
	mounts     map[string][]string // image volumes by container
	layers     map[string]int64    // bytes freed by removing a container or an image

	capacity, available int64
	fills               int64 // bytes that other programs write per second
	begun               time.Time
	lag                 time.Duration
	due                 []freed
	diskErr             error

	fail  map[string]error // by call, such as "RemoveImage a", or "Images" for every one
	hang  map[string]bool
	calls []string // removed or stopped objects, in order
	on    func(call string)

	pods     known
	complete bool

	events []string
	counts map[string]int
	freed  map[signals.Garbage]int64
}

type freed struct {
	at    time.Time
	bytes int64
}

// in runs a test in a bubble, in a world of active pods.
func in(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		story(t, &world{
			t: t, mounts: map[string][]string{}, layers: map[string]int64{}, capacity: 1000 * mib, available: 1000 * mib, begun: time.Now(),
			fail: map[string]error{}, hang: map[string]bool{}, on: func(string) {}, pods: known{}, complete: true,
			counts: map[string]int{}, freed: map[signals.Garbage]int64{},
		})
	})
}

// kubeletOptions are the kubelet's defaults.
var kubeletOptions = Options{ImageHigh: 85, ImageLow: 80, MinimumImageTTL: 2 * time.Minute, MaximumDeadPerContainer: 1, MaximumDead: -1}

func (w *world) collector(change func(*Options)) *Collector {
	o := kubeletOptions
	if change != nil {
		change(&o)
	}
	return New(w, w.disk, w, w, slog.New(slog.DiscardHandler), o)
}

// hold adds images of 100 MiB to the disk.
func (w *world) hold(ids ...string) {
	for _, id := range ids {
		w.images = append(w.images, cri.Image{ID: id, Size: 100 * mib})
		w.layers[id] = 100 * mib
		w.available -= 100 * mib
	}
}

// ended adds a dead container with a writable layer.
func (w *world) ended(id, uid string, age time.Duration, layer int64) {
	w.containers = append(w.containers, cri.Container{ID: id, PodUID: uid, Name: "c", State: cri.Exited, Created: time.Now().Add(-age)})
	w.layers[id] = layer
	w.available -= layer
}

// space returns the available bytes.
func (w *world) space() int64 {
	now, bytes := time.Now(), w.available
	for _, f := range w.due {
		if !f.at.After(now) {
			bytes += f.bytes
		}
	}
	return max(0, bytes-int64(now.Sub(w.begun).Seconds()*float64(w.fills)))
}

func (w *world) disk(context.Context) (available, capacity int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.space(), w.capacity, w.diskErr
}

// atLeast returns a condition that holds from that many available bytes on.
func (w *world) atLeast(bytes int64) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.space() >= bytes
	}
}

// call is the start of every call: w.mu is held when it returns nil.
func (w *world) call(ctx context.Context, name, id string) error {
	full := strings.TrimSpace(name + " " + id)
	w.mu.Lock()
	on := w.on
	hangs := w.hang[full] || w.hang[name]
	w.mu.Unlock()
	on(full)
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("%s: %w: %w", full, cri.ErrTimeout, ctx.Err())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	if err := w.fail[full]; err != nil {
		w.mu.Unlock()
		return err
	}
	if err := w.fail[name]; err != nil {
		w.mu.Unlock()
		return err
	}
	if id != "" && name != "Status" {
		w.calls = append(w.calls, full)
	}
	return nil
}

func list[T any](ctx context.Context, w *world, name string, of *[]T) ([]T, error) {
	if err := w.call(ctx, name, ""); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	return slices.Clone(*of), nil
}

func (w *world) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	return list(ctx, w, "Sandboxes", &w.sandboxes)
}

func (w *world) Containers(ctx context.Context) ([]cri.Container, error) {
	return list(ctx, w, "Containers", &w.containers)
}

func (w *world) Images(ctx context.Context) ([]cri.Image, error) {
	return list(ctx, w, "Images", &w.images)
}

func (w *world) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	if err := w.call(ctx, "Status", id); err != nil {
		return cri.ContainerStatus{}, err
	}
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.containers, func(k cri.Container) bool { return k.ID == id })
	if i < 0 {
		return cri.ContainerStatus{}, cri.ErrNotFound
	}
	status := cri.ContainerStatus{ID: id, State: w.containers[i].State}
	for _, image := range w.mounts[id] {
		status.Mounts = append(status.Mounts, cri.Mount{Image: image})
	}
	return status, nil
}

func (w *world) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	err := w.call(ctx, "Stop", id)
	if err == nil {
		if grace != 0 {
			w.t.Errorf("container %s is given %v to end, though nobody waits for its work", id, grace)
		}
		w.mu.Unlock()
	}
	return err
}

func (w *world) StopSandbox(ctx context.Context, id string) error {
	err := w.call(ctx, "StopSandbox", id)
	if err == nil {
		w.mu.Unlock()
	}
	return err
}

func remove[T any](ctx context.Context, w *world, name, id string, from *[]T, called func(T) string) error {
	if err := w.call(ctx, name, id); err != nil {
		return err
	}
	defer w.mu.Unlock()
	before := len(*from)
	*from = slices.DeleteFunc(*from, func(thing T) bool { return called(thing) == id })
	if len(*from) == before {
		return fmt.Errorf("%s %s: %w", name, id, cri.ErrNotFound)
	}
	w.due = append(w.due, freed{time.Now().Add(w.lag), w.layers[id]})
	return nil
}

func (w *world) RemoveContainer(ctx context.Context, id string) error {
	return remove(ctx, w, "RemoveContainer", id, &w.containers, containerID)
}

func (w *world) RemoveSandbox(ctx context.Context, id string) error {
	return remove(ctx, w, "RemoveSandbox", id, &w.sandboxes, func(s cri.Sandbox) string { return s.ID })
}

func (w *world) RemoveImage(ctx context.Context, id string) error {
	return remove(ctx, w, "RemoveImage", id, &w.images, imageID)
}

func (w *world) Pod(uid string) PodState { return w.pods[uid] }
func (w *world) Complete() bool          { return w.complete }

func (w *world) Event(reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, reason+": "+message)
}

func (w *world) Collected(kind string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[kind] += n
}

func (w *world) Freed(what signals.Garbage, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freed[what] += bytes
}

// told returns the events so far.
func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// did returns the objects removed or stopped since the last call.
func (w *world) did() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.calls = nil }()
	return strings.Join(w.calls, ", ")
}

// expect fails unless exactly that was done since the last call.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.did(); got != strings.Join(want, ", ") {
		w.t.Errorf("did %q, want %q", got, strings.Join(want, ", "))
	}
}

// change changes the world under its lock.
func (w *world) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
}

// run starts Run, and returns the function that ends it.
func (w *world) run(c *Collector) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

// pass advances virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
