package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// contender is a measured program, and the one that receives the same objects and discards
// them.
type contender struct {
	name               string
	complete, decoding func(o *options, kubeconfig string) []string // the command line
	grace              time.Duration                                // from the last renewal until a node is Unknown
}

var contenders = []contender{
	{
		"upstream",
		func(o *options, k string) []string { return []string{o.upstream, "-kubeconfig", k} },
		func(o *options, k string) []string { return []string{o.upstream, "-kubeconfig", k, "-decode-only"} },
		grace,
	},
	{"plimsoll", ourselves("controller"), ourselves("decoding"), grace},
}

// grace is the default of both.
const grace = 50 * time.Second

func ourselves(role string) func(*options, string) []string {
	return func(_ *options, k string) []string {
		return []string{"/proc/self/exe", "-role", role, "-kubeconfig", k}
	}
}

// used is the consumption of a process in a window.
type used struct {
	Seconds    float64 `json:"seconds"`
	Leases     int     `json:"leases"`   // renewals received
	Statuses   int     `json:"statuses"` // node status updates
	CPU        float64 `json:"cpu_ms"`
	Bytes      uint64  `json:"bytes"` // allocated
	Objects    uint64  `json:"objects"`
	Collected  uint32  `json:"collections"`
	BehindMost int     `json:"behind_most"` // changes not yet sent at the end of the window
}

// measurement is one process with one cluster.
type measurement struct {
	Name     string             `json:"name"`
	Decoding bool               `json:"decoding_only"`
	Run      int                `json:"run"`
	Size     fakeapiserver.Size `json:"size"`
	Seeing   float64            `json:"seeing_s"` // from the start until everything was received
	Heap     uint64             `json:"heap_bytes"`
	Resident int64              `json:"resident_bytes"`
	Idle     used               `json:"idle"`
	Busy     used               `json:"busy"`
	Deaths   deaths             `json:"deaths"`
	Calls    map[string]int     `json:"calls"`
}

// beside measures every contender before clusters of every size.
func beside(ctx context.Context, o *options) error {
	var all []measurement
	for _, nodes := range o.sizes {
		for run := range o.runs {
			for _, c := range contenders {
				for _, decoding := range []bool{false, true} {
					t := measurement{Name: c.name, Decoding: decoding, Run: run, Size: fakeapiserver.Size{Nodes: nodes, Images: o.images, Pods: o.pods}}
					if err := t.runProgram(ctx, o, &c); err != nil {
						return fmt.Errorf("%d nodes, %s: %w", nodes, c.name, err)
					}
					if err := appendLine(o.out, "beside", &t); err != nil {
						return err
					}
					all = append(all, t)
				}
			}
		}
	}
	printBeside(o, all)
	return nil
}

// runProgram runs the program before a cluster of its own.
func (t *measurement) runProgram(ctx context.Context, o *options, by *contender) error {
	dir, err := os.MkdirTemp("", "lifecycle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := fakeapiserver.New(t.Size)
	s, err := c.Serve(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	living, end := context.WithCancel(ctx)
	defer end()
	go c.Live(living)
	command := by.complete(o, s.Kubeconfig)
	if t.Decoding {
		command = by.decoding(o, s.Kubeconfig)
	}
	begin := time.Now()
	p, err := start(ctx, filepath.Join(dir, "log"), command[0], command[1:]...)
	if err != nil {
		return err
	}
	defer p.stop()
	t.Seeing = time.Since(begin).Seconds()
	if err := t.measure(ctx, o, p, c); err != nil {
		return err
	}
	if !t.Decoding {
		t.Deaths, err = kill(ctx, o.kill, c, by.grace)
	}
	t.Calls = c.Calls()
	return err
}

func (t *measurement) measure(ctx context.Context, o *options, p *process, c *fakeapiserver.Cluster) error {
	if err := settled(ctx, o.settle, c); err != nil {
		return err
	}
	debug.FreeOSMemory() // the server's, so that it is not due during the measurement
	if err := p.collect(); err != nil {
		return err
	}
	r, err := p.read()
	if err != nil {
		return err
	}
	t.Heap, t.Resident = r.memory.HeapAlloc, r.resident
	if t.Idle, err = window(ctx, o.window, p, c); err != nil {
		return err
	}
	c.Pace(max(1, float64(o.busy)*fakeapiserver.Renewal.Seconds()/float64(t.Size.Nodes)))
	defer c.Pace(1)
	t.Busy, err = window(ctx, o.window, p, c)
	return err
}

// settled waits until the program has processed the events during its first lists and has been
// quiet for a while. Upstream creates one event after another, one for every node that it sees
// for the first time.
func settled(ctx context.Context, quiet time.Duration, c *fakeapiserver.Cluster) error {
	for calls := map[string]int(nil); !maps.Equal(calls, c.Calls()); {
		calls = c.Calls()
		if err := pass(ctx, quiet); err != nil {
			return err
		}
		if err := caughtUp(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// caughtUp waits until all watches have received all events.
func caughtUp(ctx context.Context, c *fakeapiserver.Cluster) error {
	for c.Behind() > 0 {
		if err := pass(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// window measures the consumption of a process for a while, and the objects received meanwhile.
func window(ctx context.Context, d time.Duration, p *process, c *fakeapiserver.Cluster) (used, error) {
	before := c.Beats()
	begin, err := p.read()
	if err != nil {
		return used{}, err
	}
	if err := pass(ctx, d); err != nil {
		return used{}, err
	}
	after, behind := c.Beats(), c.Behind()
	if err := caughtUp(ctx, c); err != nil {
		return used{}, err
	}
	r, err := p.read()
	if err != nil {
		return used{}, err
	}
	return used{
		Seconds: r.at.Sub(begin.at).Seconds(),
		Leases:  after.Leases - before.Leases, Statuses: after.Statuses - before.Statuses,
		CPU:   milliseconds(r.cpu - begin.cpu),
		Bytes: r.memory.TotalAlloc - begin.memory.TotalAlloc, Objects: r.memory.Mallocs - begin.memory.Mallocs,
		Collected: r.memory.NumGC - begin.memory.NumGC, BehindMost: behind,
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// patience is the maximum wait for a dead node beyond its deadline.
const patience = 20 * time.Second

// deaths is the outcome for nodes without kubelets.
type deaths struct {
	Late   []float64 `json:"late_s"`    // from the deadline of each to Unknown, in the order of their deaths
	Missed int       `json:"missed"`    // not Unknown at the end of the wait
	Stall  float64   `json:"stalled_s"` // longest interruption of this program by the machine
}

// kill stops the kubelets of some nodes, spread over the cluster and over the renewal interval.
// It waits until the nodes are Unknown.
func kill(ctx context.Context, nodes int, c *fakeapiserver.Cluster, grace time.Duration) (d deaths, err error) {
	w := newSampler()
	defer func() { d.Stall = w.end() }()
	for i := range nodes {
		c.Silence(i*c.Size().Nodes/nodes + i%2)
		if err := pass(ctx, fakeapiserver.Renewal/time.Duration(nodes)); err != nil {
			return d, err
		}
	}
	silent := c.Silent()
	for end := time.Now().Add(grace + patience); len(c.Unknown()) < len(silent) && time.Now().Before(end); {
		if err := pass(ctx, 50*time.Millisecond); err != nil {
			return d, err
		}
	}
	d.Late, d.Missed = lateness(silent, c.Unknown(), grace)
	return d, nil
}

// lateness returns the delay from each silent node's deadline to Unknown, in the order of their
// deaths. missed counts nodes that were not Unknown.
func lateness(silent map[int]time.Time, unknown map[string]time.Time, grace time.Duration) (late []float64, missed int) {
	for _, i := range slices.Sorted(maps.Keys(silent)) {
		at, marked := unknown[fakeapiserver.NodeName(i)]
		if !marked {
			missed++
			continue
		}
		late = append(late, at.Sub(silent[i].Add(grace)).Seconds())
	}
	return late, missed
}

// appendLine appends a line of JSON to a file, if there is one.
func appendLine(name, measurement string, what any) error {
	if name == "" {
		return nil
	}
	line, err := json.Marshal(map[string]any{"measurement": measurement, "at": time.Now().UTC().Format(time.RFC3339), "result": what})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}
