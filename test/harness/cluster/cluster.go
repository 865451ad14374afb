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

// Components that can be started. Start adds the dependencies: the etcd of an API server, the
// API server and containerd of a kubelet.
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

// needs lists the dependencies of each component.
var needs = []struct{ component, what Components }{ // in an order that needs one pass
	{Kubelet, APIServer | Containerd},
	{Scheduler, APIServer},
	{Controllers, APIServer},
	{APIServer, Etcd},
}

func (c Components) has(what Components) bool { return c&what != 0 }

func (c Components) complete() Components {
	for _, n := range needs {
		if c.has(n.component) {
			c |= n.what
		}
	}
	return c
}

// Options configures a cluster.
type Options struct {
	Components Components
	Node       NodeOptions
	// ControllerList is the value of --controllers of the controller manager. The default is
	// every controller except the node lifecycle controllers, which would mark the node
	// unreachable by the age of its lease.
	ControllerList string
	// Args are appended to the command line of a component.
	Args map[Components][]string
}

// Cluster is a running set of components. Components that were not requested are nil.
type Cluster struct {
	Dir                                     string // root of all files of this cluster
	Etcd, APIServer, Controllers, Scheduler *Component
	Node                                    *Node // with containerd

	// Link forwards bytes to the API server, and Front forwards requests. Both inject the
	// faults that a test configures.
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

var open sync.Map // *Cluster → struct{}: the clusters that closeAll closes

// startPatience bounds a start. A start that hangs on a busy machine fails with a reason before
// the timeout of the test, which reports none.
const startPatience = 3 * time.Minute

// Start starts components and waits until they are ready. The caller closes the cluster.
// Returns an error with the last log lines if a component fails; all processes and files are
// then removed.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience(startPatience))
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
	if c.authority, err = authorityOf(); err != nil {
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

// together runs steps concurrently. The first error cancels the other steps.
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

// Make starts a cluster for a test. It checks the prerequisites, closes the cluster at the end
// of the test, and logs what the machine was busy with and the output of all components if the test failed.
func Make(t TB, o Options) *Cluster {
	t.Helper()
	Need(t)
	c, err := Start(context.Background(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", machineLoad(), c.Logs())
		}
		if err := c.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return c
}

// Close stops every process of the cluster, including containers, and removes everything the
// cluster created. It is idempotent. Returns the errors of all steps.
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

// catchSignals closes every cluster on SIGINT, SIGTERM or SIGHUP and then raises the signal
// again with its default action.
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

// components lists the started components in start order.
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

// Logs returns the end of the log of every component in readable form.
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
