package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

// roles are what this program is to another one of its kind. Each calls ready
// once it has seen everything, and ends with ctx.
var roles = map[string]func(ctx context.Context, c *client.Clients, ready func()){
	"controller": lead,
	"decoding":   decode,
}

// play has this process measured by another one.
func play(ctx context.Context, role, kubeconfig string) error {
	do := roles[role]
	if do == nil {
		return fmt.Errorf("-role %s: there is no such one", role)
	}
	clients, err := client.Dial(client.Options{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	address, err := tellOfItself()
	if err != nil {
		return err
	}
	do(ctx, clients, sync.OnceFunc(func() { fmt.Printf("ready %s\n", address) }))
	return nil
}

// requestTimeout of each request that writes, and of live reads, as the product
// has it.
const requestTimeout = 10 * time.Second

// lead runs the controller by its defaults, but that it leads from the start, as
// upstream's does here, and carries out what it decides.
func lead(ctx context.Context, c *client.Clients, ready func()) {
	d := config.NewController()
	settings := lifecycle.Settings{
		Mode: lifecycle.Replace, EvictionMethod: lifecycle.Delete, EvictionWait: d.PodEvictionWait,
		QPS: d.KubeAPIQPS, Burst: int(d.KubeAPIBurst), EventQPS: d.EventQPS, RequestTimeout: requestTimeout,
		AgentNamespace: d.HeartbeatNamespace,
		OtherWriters:   lifecycle.DefaultOtherWriters, OtherWriterWindow: d.ConflictWindow,
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	lifecycle.New(settings, d.Policy(), lifecycle.Parts{
		Watching: c.Watching, Writing: c.Writing, Electing: c.Electing, Log: quiet,
		Meters: lifecycle.Meters{Leading: func(is bool) {
			if is {
				ready()
			}
		}},
	}).Run(ctx)
}

// decode follows what the controller follows, with its reflectors, and drops
// every object once it is decoded.
func decode(ctx context.Context, c *client.Clients, ready func()) {
	var full, running sync.WaitGroup
	for _, s := range followed(c.Watching) {
		full.Add(1)
		r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(s.lists, c.Watching), s.example,
			&nowhere{full: sync.OnceFunc(full.Done)}, cache.ReflectorOptions{})
		running.Go(func() { r.RunWithContext(klog.NewContext(ctx, klog.Logger{})) })
	}
	full.Wait()
	ready()
	running.Wait()
}

// A following is of which objects the API server is asked to tell.
type following struct {
	lists   *cache.ListWatch
	example runtime.Object
}

// followed is what the controller follows.
func followed(client kubernetes.Interface) []following {
	agents := config.NewController().HeartbeatNamespace
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return []following{
		{listed[*corev1.NodeList](client.CoreV1().Nodes(), ""), &corev1.Node{}},
		{listed[*corev1.PodList](client.CoreV1().Pods(""), bound), &corev1.Pod{}},
		{listed[*coordinationv1.LeaseList](client.CoordinationV1().Leases(corev1.NamespaceNodeLease), ""), &coordinationv1.Lease{}},
		{listed[*coordinationv1.LeaseList](client.CoordinationV1().Leases(agents), ""), &coordinationv1.Lease{}},
	}
}

// listed is how a reflector reads a list and follows it.
func listed[L runtime.Object](from interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, selector string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return from.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return from.Watch(ctx, o)
		},
	}
}

// nowhere is a store that keeps nothing.
type nowhere struct{ full func() }

func (n *nowhere) Add(any) error               { return nil }
func (n *nowhere) Update(any) error            { return nil }
func (n *nowhere) Delete(any) error            { return nil }
func (n *nowhere) Resync() error               { return nil }
func (n *nowhere) Replace([]any, string) error { n.full(); return nil }

// Transformer takes everything off an object but its name, as soon as it is
// decoded: of a list that arrives object by object nothing is held either.
func (n *nowhere) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(metav1.Object)
		if !ok {
			return object, nil
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}, nil
	}
}
