// Command upstream runs Kubernetes' own node lifecycle and taint eviction
// controllers, as they are published, against one API server, so that what they
// cost can be measured beside Plimsoll's. It calls their exported API and nothing
// else; with -decode-only it keeps their informers and leaves out the controllers.
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

// resync is the shortest period after which kube-controller-manager's informers
// hand over again what they have; its own is up to twice as long.
const resync = 12 * time.Hour

func main() {
	var kubeconfig string
	var decodeOnly bool
	flag.StringVar(&kubeconfig, "kubeconfig", "", "says where the API server is")
	flag.BoolVar(&decodeOnly, "decode-only", false, "fill the informers' stores, and have nobody look at them")
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
		start = nobody
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

// connect makes a client's configuration with the media types and the budget
// that kube-controller-manager has by default.
func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return nil, errors.New("no -kubeconfig: name the file that says where the API server is")
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

// unlimited is a connection that waits for no budget: the first lists are not
// what is measured.
func unlimited(c *rest.Config) *rest.Config {
	free := rest.CopyConfig(c)
	free.QPS, free.Burst = -1, 0
	return free
}

// trimmed takes off an object who manages its fields, as kube-controller-manager
// has its informers do: it is much, and nobody reads it.
func trimmed(object any) (any, error) {
	if m, err := meta.Accessor(object); err == nil {
		m.SetManagedFields(nil)
	}
	return object, nil
}

// nobody asks for the informers that the controllers ask for, with handlers that
// drop what they are handed.
func nobody(_ context.Context, _ *rest.Config, f informers.SharedInformerFactory) (func(), error) {
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
