package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// Components is a set of components.
type Components uint

// What can be started. What a component needs is started too: an API server's
// etcd, a kubelet's API server and containerd.
const (
	Etcd Components = 1 << iota
	APIServer
	Controllers
	Scheduler
	Containerd
	Kubelet

	ControlPlane = Etcd | APIServer | Controllers | Scheduler
	Everything   = ControlPlane | Containerd | Kubelet
)

// needs is what each component needs.
var needs = []struct{ who, what Components }{ // in an order that needs one pass
	{Kubelet, APIServer | Containerd},
	{Scheduler, APIServer},
	{Controllers, APIServer},
	{APIServer, Etcd},
}

func (c Components) has(what Components) bool { return c&what != 0 }

func (c Components) complete() Components {
	for _, n := range needs {
		if c.has(n.who) {
			c |= n.what
		}
	}
	return c
}

// Options say what to start, and how.
type Options struct {
	Components Components
	Node       NodeOptions
	// ControllerList is what the controller manager runs; empty is everything but
	// the node lifecycle, which would judge the node by how old its lease is.
	ControllerList string
	// Args are appended to a component's command line.
	Args map[Components][]string
}

// A Cluster is a running set of components. Those not asked for are nil.
type Cluster struct {
	Dir                                     string // everything of this cluster is below it
	Etcd, APIServer, Controllers, Scheduler *Component
	Node                                    *Node // with containerd

	// Link passes bytes on to the API server, and Front requests: both fail as
	// they are told to.
	Link  *Link
	Front *Front

	options   Options
	system    *system
	authority *authority
	etcdURL   string
	url       string // of the API server

	launching sync.Mutex
	launched  []*Component // by Launch

	closing sync.Once
	closed  error
}

var open sync.Map // *Cluster → struct{}: what closeAll closes

// startPatience bounds a start: what hangs on a busy machine fails, with a reason,
// before the test does without one.
const startPatience = 3 * time.Minute

// Start starts components and waits until they answer. On error nothing is left
// behind. The caller closes the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	o.Components = o.Components.complete()
	c := &Cluster{options: o}
	open.Store(c, struct{}{})
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("start a cluster: %w", err)
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if c.system, err = newSystem(); err != nil {
		return err
	}
	c.Dir = c.system.dir
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	for _, dir := range []string{c.path("pki"), c.path("logs")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := c.authority.writePKI(c.path("pki")); err != nil {
		return err
	}
	if err := together(ctx, c.startControlPlane, c.startRuntime); err != nil {
		return err
	}
	return c.joinNode(ctx)
}

// together runs steps at the same time; the first that fails ends the others.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(steps))
	for _, step := range steps {
		go func() { ended <- step(ctx) }()
	}
	var errs []error
	for range steps {
		if err := <-ended; err != nil {
			errs = append(errs, err)
			cancel()
		}
	}
	return errors.Join(errs...)
}

// Make is Start for a test: prerequisites are checked, the cluster is closed
// when the test ends, and where the test failed the logs are shown.
func Make(t TB, o Options) *Cluster {
	t.Helper()
	Need(t)
	c, err := Start(context.Background(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", c.Logs())
		}
		if err := c.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return c
}

// Close ends every process of the cluster, containers included, and removes all
// that it made. It may be called again.
func (c *Cluster) Close() error {
	c.closing.Do(func() {
		var errs []error
		if c.Front != nil {
			errs = append(errs, c.Front.close())
		}
		if c.Link != nil {
			errs = append(errs, c.Link.close())
		}
		if c.system != nil {
			errs = append(errs, c.system.node.Close()) // a kubelet would restart its pods
		}
		if c.Node != nil {
			errs = append(errs, c.Node.close())
		}
		if c.system != nil {
			errs = append(errs, c.system.close())
		}
		open.Delete(c)
		if c.closed = errors.Join(errs...); c.closed != nil {
			c.closed = fmt.Errorf("close cluster %s: %w", c.Dir, c.closed)
		}
	})
	return c.closed
}

func closeAll() error {
	var errs []error
	open.Range(func(c, _ any) bool {
		errs = append(errs, c.(*Cluster).Close())
		return true
	})
	return errors.Join(errs...)
}

// catchSignals closes every cluster when the process is told to end, and then
// lets the signal do its work.
func catchSignals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		sig := (<-caught).(syscall.Signal)
		if err := errors.Join(closeAll(), sandbox.CloseAll()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig)
	}()
}

// components lists those that were started, in the order of their start.
func (c *Cluster) components() (list []*Component) {
	all := []*Component{c.Etcd, c.APIServer, c.Controllers, c.Scheduler}
	if c.Node != nil {
		all = append(all, c.Node.Containerd, c.Node.Kubelet)
	}
	c.launching.Lock()
	all = append(all, c.launched...)
	c.launching.Unlock()
	for _, component := range all {
		if component != nil {
			list = append(list, component)
		}
	}
	return list
}

// Logs is the end of every component's log, for people.
func (c *Cluster) Logs() string {
	var all strings.Builder
	for _, component := range c.components() {
		all.WriteString(component.Tail(tail))
	}
	return all.String()
}

func (c *Cluster) path(below ...string) string {
	return filepath.Join(append([]string{c.Dir}, below...)...)
}
