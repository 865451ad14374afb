// Command upstream runs the published node lifecycle and taint eviction controllers of
// Kubernetes against one API server, so that their cost can be compared with Plimsoll's. It
// uses only their exported API. With -decode-only it runs their informers without the
// controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// resync is the minimum resync period of kube-controller-manager's informers; the actual one is
// up to twice as long.
const resync = 12 * time.Hour

func main() {
	var kubeconfig string
	var decodeOnly bool
	flag.StringVar(&kubeconfig, "kubeconfig", "", "file with the address of the API server")
	flag.BoolVar(&decodeOnly, "decode-only", false, "fill the informers' stores, without any handler")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, kubeconfig, decodeOnly); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, decodeOnly bool) error {
	connection, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	address, err := report()
	if err != nil {
		return err
	}
	reading, err := kubernetes.NewForConfig(unlimited(connection))
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(reading, resync, informers.WithTransform(trimmed))
	start := controllers
	if decodeOnly {
		start = withoutHandlers
	}
	begin, err := start(ctx, connection, factory)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("fill the store of %v: stopped before it was full: %w", kind, ctx.Err())
		}
	}
	begin()
	fmt.Printf("ready %s\n", address)
	<-ctx.Done()
	return nil
}

// connect returns a client configuration with the default media types and request budget of
// kube-controller-manager.
func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, errors.New("no -kubeconfig: name the file with the address of the API server")
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.QPS, c.Burst = 20, 30
	return c, nil
}

// unlimited returns a configuration without a request budget: the initial lists are not part of
// the measurement.
func unlimited(c *rest.Config) *rest.Config {
	free := rest.CopyConfig(c)
	free.QPS, free.Burst = -1, 0
	return free
}

// trimmed removes the managed fields of an object, as kube-controller-manager does in its
// informers: they are large and unused.
func trimmed(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		m.SetManagedFields(nil)
	}
	return object, nil
}

// withoutHandlers creates the informers of the controllers, with handlers that drop every event.
func withoutHandlers(_ context.Context, _ *rest.Config, f informers.SharedInformerFactory) (func(), error) {
	for _, i := range []cache.SharedIndexInformer{
		f.Core().V1().Nodes().Informer(), f.Core().V1().Pods().Informer(),
		f.Coordination().V1().Leases().Informer(), f.Apps().V1().DaemonSets().Informer(),
	} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}
