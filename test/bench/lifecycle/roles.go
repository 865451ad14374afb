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
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

// roles lists the roles of this program under measurement by another instance. Each calls ready
// once it has received everything, and ends with ctx.
var roles = map[string]func(ctx context.Context, c *client.Clients, ready func()){
	"controller": lead,
	"decoding":   decode,
}

// play runs this process in a role to be measured by another one.
func play(ctx context.Context, role, kubeconfig string) error {
	do := roles[role]
	if do == nil {
		return fmt.Errorf("-role %s: unknown role", role)
	}
	clients, err := client.Dial(client.Options{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	address, err := serveStatistics()
	if err != nil {
		return err
	}
	do(ctx, clients, sync.OnceFunc(func() { fmt.Printf("ready %s\n", address) }))
	return nil
}

// requestTimeout is the product's limit for each write and each live read.
const requestTimeout = 10 * time.Second

// lead runs the controller with its defaults and executes its decisions. Like upstream here, it
// leads from the start.
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

// decode watches the controller's objects with its reflectors, and drops every object once
// decoded.
func decode(ctx context.Context, c *client.Clients, ready func()) {
	var full, running sync.WaitGroup
	for _, s := range followed(c.Watching) {
		full.Add(1)
		r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(s.lists, c.Watching), s.example,
			&discard{full: sync.OnceFunc(full.Done)}, cache.ReflectorOptions{})
		running.Go(func() { r.RunWithContext(klog.NewContext(ctx, klog.Logger{})) })
	}
	full.Wait()
	ready()
	running.Wait()
}

// following selects objects of the API server to list and watch.
type following struct {
	lists   *cache.ListWatch
	example runtime.Object
}

// followed returns the objects that the controller watches.
func followed(client api.Interface) []following {
	agents := config.NewController().HeartbeatNamespace
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return []following{
		{listed[*corev1.NodeList](client.Nodes(), ""), &corev1.Node{}},
		{listed[*corev1.PodList](client.Pods(""), bound), &corev1.Pod{}},
		{listed[*coordinationv1.LeaseList](client.Leases(corev1.NamespaceNodeLease), ""), &coordinationv1.Lease{}},
		{listed[*coordinationv1.LeaseList](client.Leases(agents), ""), &coordinationv1.Lease{}},
	}
}

// listed returns a ListWatch for a reflector.
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

// discard is a store that drops everything.
type discard struct{ full func() }

func (n *discard) Add(any) error               { return nil }
func (n *discard) Update(any) error            { return nil }
func (n *discard) Delete(any) error            { return nil }
func (n *discard) Resync() error               { return nil }
func (n *discard) Replace([]any, string) error { n.full(); return nil }

// Transformer removes all but the name from an object as soon as it is decoded. So a list that
// arrives object by object is not kept in memory either.
func (n *discard) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(metav1.Object)
		if !ok {
			return object, nil
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}, nil
	}
}
