package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// vastResult is the measurement of Plimsoll before a cluster beyond Kubernetes' limits, in one
// process with it.
type vastResult struct {
	Size     fakeapiserver.Size `json:"size"`
	Seconds  float64            `json:"seconds"`
	Seeing   float64            `json:"seeing_s"`
	Renewals float64            `json:"renewals_per_s"`
	Kubelets float64            `json:"kubelets_share"` // of one core: heartbeats, and reflectors that drop them
	Share    float64            `json:"share"`          // of one core: heartbeats, and the controller
	Bytes    float64            `json:"bytes_per_renewal"`
	Heap     int64              `json:"heap_bytes"` // in addition to that without the controller
	Behind   int                `json:"behind"`     // changes not yet delivered to the controller at the end of the window
	Deaths   deaths             `json:"deaths"`
}

// vast measures the controller alone: the objects of its watches come from kubelets in the same
// process and are never encoded.
func vast(ctx context.Context, o *options) error {
	fmt.Printf(`
## Plimsoll alone, in one process with the kubelets

| nodes | pods on each | renewals a second | CPU, share of one core | of it kubelets, watches, reflectors | without them, ms a minute | per renewal, µs | allocated per renewal, bytes | heap, MiB | to see everything, s | killed | Unknown, s after the deadline | not Unknown in time | longest stall of the machine, s |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, nodes := range o.vast {
		r := vastResult{Size: fakeapiserver.Size{Nodes: nodes, Images: o.images, Pods: o.vastPods}}
		if err := r.runProgram(ctx, o); err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
		if err := appendLine(o.out, "vast", &r); err != nil {
			return err
		}
		r.print()
	}
	return nil
}

func (r *vastResult) runProgram(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "lifecycle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := fakeapiserver.New(r.Size)
	s, err := c.Serve(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	clients, err := client.Dial(client.Options{Kubeconfig: s.Kubeconfig})
	if err != nil {
		return err
	}
	clients.Watching = inside{clients.Watching, c}
	living, end := context.WithCancel(ctx)
	defer end()
	go c.Live(living)
	return r.measure(ctx, o, c, clients)
}

func (r *vastResult) measure(ctx context.Context, o *options, c *fakeapiserver.Cluster, clients *client.Clients) error {
	before := heap()
	var alone, all pace
	err := listening(ctx, decode, clients, func() (err error) {
		if err := settled(ctx, o.settle, c); err != nil {
			return err
		}
		alone, err = shareOver(ctx, o.vastWindow, c)
		return err
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	return listening(ctx, lead, clients, func() (err error) {
		r.Seeing = time.Since(begin).Seconds()
		if err := settled(ctx, o.settle, c); err != nil {
			return err
		}
		r.Heap = heap() - before
		done, err := profiled(o.profile)
		if err != nil {
			return err
		}
		all, err = shareOver(ctx, o.vastWindow, c)
		if err := errors.Join(err, done()); err != nil {
			return err
		}
		r.Seconds, r.Share, r.Kubelets, r.Renewals = all.seconds, all.cpu, alone.cpu, all.renewals
		r.Behind = c.Behind()
		r.Bytes = (all.bytes - alone.bytes) / all.renewals
		r.Deaths, err = kill(ctx, o.kill, c, grace)
		return err
	})
}

// listening runs a follower of the cluster, calls do once it has received everything, and ends
// it.
func listening(ctx context.Context, role func(context.Context, *client.Clients, func()), clients *client.Clients, do func() error) error {
	following, stop := context.WithCancel(ctx)
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		role(following, clients, sync.OnceFunc(func() { close(seen) }))
	}()
	defer func() { stop(); <-ended }()
	select {
	case <-seen:
		return do()
	case <-time.After(seeing):
		return fmt.Errorf("not everything was received within %v", seeing)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// profiled begins a profile of this process, if there is a file for it. The returned function
// ends it.
func profiled(name string) (done func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// heap returns the memory in use after a collection, in bytes.
func heap() int64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// pace is the consumption of this process per second.
type pace struct {
	seconds  float64 // measured duration
	cpu      float64 // seconds of one core
	bytes    float64 // allocated
	renewals float64
}

func shareOver(ctx context.Context, d time.Duration, c *fakeapiserver.Cluster) (pace, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	at, beats := time.Now(), c.Beats()
	first, err := spent(os.Getpid())
	if err != nil {
		return pace{}, err
	}
	if err := pass(ctx, d); err != nil {
		return pace{}, err
	}
	last, err := spent(os.Getpid())
	if err != nil {
		return pace{}, err
	}
	s := time.Since(at).Seconds()
	runtime.ReadMemStats(&after)
	return pace{
		seconds: s, cpu: (last - first).Seconds() / s,
		bytes: float64(after.TotalAlloc-before.TotalAlloc) / s, renewals: float64(c.Beats().Leases-beats.Leases) / s,
	}, nil
}

func (r *vastResult) print() {
	fmt.Printf("| %d | %d | %.0f | %.1f %% | %.1f %% | %.0f | %.2f | %.0f | %.0f | %.1f | %d | %v | %d | %.3f |\n",
		r.Size.Nodes, r.Size.Pods, r.Renewals, 100*r.Share, 100*r.Kubelets, 60e3*(r.Share-r.Kubelets), 1e6*(r.Share-r.Kubelets)/r.Renewals, r.Bytes,
		float64(r.Heap)/mib, r.Seeing, len(r.Deaths.Late)+r.Deaths.Missed, spreadOf(r.Deaths.Late), r.Deaths.Missed, r.Deaths.Stall)
}
