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

// env is a node in a synctest bubble: a runtime with a disk, the Owners and the Reporter. Removed
// bytes become available after lag.
type env struct {
	t  *testing.T
	mu sync.Mutex

	sandboxes  []cri.Sandbox
	containers []cri.Container
	images     []cri.Image
	mounts     map[string][]string // image volumes by container
	layers     map[string]int64    // bytes freed by removing a container or an image

	capacity, available int64
	fillRate            int64 // bytes that other programs write per second
	begun               time.Time
	lag                 time.Duration
	due                 []freed
	diskErr             error

	fail  map[string]error // by call, such as "RemoveImage a", or by method, such as "Images"
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

// inBubble runs a test in a synctest bubble, in a fresh env.
func inBubble(t *testing.T, test func(t *testing.T, e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &env{
			t: t, mounts: map[string][]string{}, layers: map[string]int64{}, capacity: 1000 * mib, available: 1000 * mib, begun: time.Now(),
			fail: map[string]error{}, hang: map[string]bool{}, on: func(string) {}, pods: known{}, complete: true,
			counts: map[string]int{}, freed: map[signals.Garbage]int64{},
		})
	})
}

// kubeletOptions are the kubelet's defaults.
var kubeletOptions = Options{ImageHigh: 85, ImageLow: 80, MinimumImageTTL: 2 * time.Minute, MaximumDeadPerContainer: 1, MaximumDead: -1}

func (e *env) collector(change func(*Options)) *Collector {
	o := kubeletOptions
	if change != nil {
		change(&o)
	}
	return New(e, e.disk, e, e, slog.New(slog.DiscardHandler), o)
}

// addImages adds images of 100 MiB to the disk.
func (e *env) addImages(ids ...string) {
	for _, id := range ids {
		e.images = append(e.images, cri.Image{ID: id, Size: 100 * mib})
		e.layers[id] = 100 * mib
		e.available -= 100 * mib
	}
}

// addDead adds a dead container with a writable layer.
func (e *env) addDead(id, uid string, age time.Duration, layer int64) {
	e.containers = append(e.containers, cri.Container{ID: id, PodUID: uid, Name: "c", State: cri.Exited, Created: time.Now().Add(-age)})
	e.layers[id] = layer
	e.available -= layer
}

// space returns the available bytes.
func (e *env) space() int64 {
	now, bytes := time.Now(), e.available
	for _, f := range e.due {
		if !f.at.After(now) {
			bytes += f.bytes
		}
	}
	return max(0, bytes-int64(now.Sub(e.begun).Seconds()*float64(e.fillRate)))
}

func (e *env) disk(context.Context) (available, capacity int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.space(), e.capacity, e.diskErr
}

// atLeast returns a condition that is true from that many available bytes on.
func (e *env) atLeast(bytes int64) func() bool {
	return func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.space() >= bytes
	}
}

// call is the start of every call. It returns nil with e.mu locked.
func (e *env) call(ctx context.Context, name, id string) error {
	full := strings.TrimSpace(name + " " + id)
	e.mu.Lock()
	on := e.on
	hangs := e.hang[full] || e.hang[name]
	e.mu.Unlock()
	on(full)
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("%s: %w: %w", full, cri.ErrTimeout, ctx.Err())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.mu.Lock()
	if err := e.fail[full]; err != nil {
		e.mu.Unlock()
		return err
	}
	if err := e.fail[name]; err != nil {
		e.mu.Unlock()
		return err
	}
	if id != "" && name != "Status" {
		e.calls = append(e.calls, full)
	}
	return nil
}

func list[T any](ctx context.Context, e *env, name string, of *[]T) ([]T, error) {
	if err := e.call(ctx, name, ""); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	return slices.Clone(*of), nil
}

func (e *env) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	return list(ctx, e, "Sandboxes", &e.sandboxes)
}

func (e *env) Containers(ctx context.Context) ([]cri.Container, error) {
	return list(ctx, e, "Containers", &e.containers)
}

func (e *env) Images(ctx context.Context) ([]cri.Image, error) {
	return list(ctx, e, "Images", &e.images)
}

func (e *env) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	if err := e.call(ctx, "Status", id); err != nil {
		return cri.ContainerStatus{}, err
	}
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.containers, func(k cri.Container) bool { return k.ID == id })
	if i < 0 {
		return cri.ContainerStatus{}, cri.ErrNotFound
	}
	status := cri.ContainerStatus{ID: id, State: e.containers[i].State}
	for _, image := range e.mounts[id] {
		status.Mounts = append(status.Mounts, cri.Mount{Image: image})
	}
	return status, nil
}

func (e *env) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	err := e.call(ctx, "Stop", id)
	if err == nil {
		if grace != 0 {
			e.t.Errorf("container %s: got a grace period of %v, want 0", id, grace)
		}
		e.mu.Unlock()
	}
	return err
}

func (e *env) StopSandbox(ctx context.Context, id string) error {
	err := e.call(ctx, "StopSandbox", id)
	if err == nil {
		e.mu.Unlock()
	}
	return err
}

func remove[T any](ctx context.Context, e *env, name, id string, from *[]T, called func(T) string) error {
	if err := e.call(ctx, name, id); err != nil {
		return err
	}
	defer e.mu.Unlock()
	before := len(*from)
	*from = slices.DeleteFunc(*from, func(thing T) bool { return called(thing) == id })
	if len(*from) == before {
		return fmt.Errorf("%s %s: %w", name, id, cri.ErrNotFound)
	}
	e.due = append(e.due, freed{time.Now().Add(e.lag), e.layers[id]})
	return nil
}

func (e *env) RemoveContainer(ctx context.Context, id string) error {
	return remove(ctx, e, "RemoveContainer", id, &e.containers, containerID)
}

func (e *env) RemoveSandbox(ctx context.Context, id string) error {
	return remove(ctx, e, "RemoveSandbox", id, &e.sandboxes, func(s cri.Sandbox) string { return s.ID })
}

func (e *env) RemoveImage(ctx context.Context, id string) error {
	return remove(ctx, e, "RemoveImage", id, &e.images, imageID)
}

func (e *env) Pod(uid string) PodState { return e.pods[uid] }
func (e *env) Complete() bool          { return e.complete }

func (e *env) Event(reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, reason+": "+message)
}

func (e *env) Collected(kind string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[kind] += n
}

func (e *env) Freed(what signals.Garbage, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.freed[what] += bytes
}

// reportedEvents returns the events so far.
func (e *env) reportedEvents() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events)
}

// takeCalls returns the objects removed or stopped since the last call.
func (e *env) takeCalls() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.calls = nil }()
	return strings.Join(e.calls, ", ")
}

// expect fails unless these are exactly the calls since the last check.
func (e *env) expect(want ...string) {
	e.t.Helper()
	if got := e.takeCalls(); got != strings.Join(want, ", ") {
		e.t.Errorf("got calls %q, want %q", got, strings.Join(want, ", "))
	}
}

// change changes the env under its lock.
func (e *env) change(how func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	how()
}

// run starts Run, and returns the function that ends it.
func (e *env) run(c *Collector) (stop func()) {
	ctx, cancel := context.WithCancel(e.t.Context())
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
