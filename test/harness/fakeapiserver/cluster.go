package fakeapiserver

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is an API object. It is immutable once it was passed on.
type object interface {
	runtime.Object
	metav1.Object
}

// Cluster is a simulated cluster and the server of its API.
type Cluster struct {
	size        Size
	born        metav1.Time // creation time of everything
	nodePattern corev1.Node
	podPattern  corev1.Pod
	leaseFields []metav1.ManagedFieldsEntry
	stores      map[schema.GroupResource]*store
	nodes       *store
	leases      *store

	mu      sync.Mutex // guards the fields below and every shelf
	version uint64     // resourceVersion of the last change
	calls   map[string]int
	unknown map[string]time.Time // nodes marked Unknown by a client, and when
	beats   Beats
	pace    float64
	silent  map[int]time.Time // nodes with a stopped kubelet, and the time of their last heartbeat
}

// oldest is the resourceVersion of unchanged objects.
const oldest = 1_000_000

// New returns a cluster, a month old, in which every node has just sent a heartbeat.
func New(size Size) *Cluster {
	now := time.Now()
	born := metav1.NewTime(now.Add(-30 * 24 * time.Hour).Truncate(time.Second))
	c := &Cluster{
		size: size, born: born, version: oldest, pace: 1,
		nodePattern: nodePattern(size.Images, born), podPattern: podPattern(born),
		leaseFields: []metav1.ManagedFieldsEntry{managed("kubelet", born, "holderIdentity", "leaseDurationSeconds", "renewTime")},
		calls:       map[string]int{}, unknown: map[string]time.Time{}, silent: map[int]time.Time{},
	}
	c.stores = c.newStores(now)
	c.nodes, c.leases = c.stores[schema.GroupResource{Resource: "nodes"}], c.stores[schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}]
	return c
}

// Size returns the configured size of the cluster.
func (c *Cluster) Size() Size { return c.size }

// store contains the objects of one resource. Unwritten objects are generated on request.
type store struct {
	gv         schema.GroupVersion
	kind       string
	names      func(i int) (namespace, name string)
	build      func(i int, last time.Time) object
	count      int               // of generated objects
	heartbeats []time.Time       // last heartbeat of each generated object; nil for resources without heartbeats
	versions   []uint64          // of each generated object; nil if only writes change the resource
	written    map[string]object // by key; nil for deleted objects
	created    []string          // keys of created objects, in creation order
	history    []event           // the last changes
	forgot     uint64            // version of the newest change dropped from the history
	watchers   map[*watcher]struct{}
}

func (c *Cluster) newStores(now time.Time) map[schema.GroupResource]*store {
	v1, coordination, apps := corev1.SchemeGroupVersion, schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	live := func(s *store) *store {
		s.heartbeats, s.versions = slices.Repeat([]time.Time{now}, s.count), slices.Repeat([]uint64{oldest}, s.count)
		return s
	}
	stores := map[schema.GroupResource]*store{
		{Resource: "nodes"}: live(&store{
			gv: v1, kind: "Node", count: c.size.Nodes,
			names: func(i int) (string, string) { return "", NodeName(i) },
			build: func(i int, last time.Time) object { return c.node(i, last) },
		}),
		{Group: coordination.Group, Resource: "leases"}: live(&store{
			gv: coordination, kind: "Lease", count: c.size.Nodes,
			names: func(i int) (string, string) { return corev1.NamespaceNodeLease, NodeName(i) },
			build: func(i int, last time.Time) object { return c.lease(i, last) },
		}),
		{Resource: "pods"}: {
			gv: v1, kind: "Pod", count: c.size.Nodes * c.size.Pods, names: c.podNames,
			build: func(i int, _ time.Time) object { return c.pod(i) },
		},
		{Group: apps.Group, Resource: "daemonsets"}: {
			gv: apps, kind: "DaemonSet", count: daemonSets,
			names: func(i int) (string, string) { return "system", daemonName(i) },
			build: func(i int, _ time.Time) object { return daemonSet(i, c.born) },
		},
	}
	// Kinds of which a cluster has none at first.
	for resource, kind := range map[string]string{"validatingadmissionpolicies": "ValidatingAdmissionPolicy", "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding"} {
		stores[schema.GroupResource{Group: admission.Group, Resource: resource}] = &store{gv: admission, kind: kind}
	}
	stores[schema.GroupResource{Resource: "configmaps"}] = &store{gv: v1, kind: "ConfigMap"}
	for _, s := range stores {
		s.written, s.watchers, s.forgot = map[string]object{}, map[*watcher]struct{}{}, oldest
	}
	return stores
}

func key(namespace, name string) string { return namespace + "/" + name }

// at returns the object with that number, or nil if it was deleted.
func (s *store) at(i int) object {
	if len(s.written) > 0 {
		if o, found := s.written[key(s.names(i))]; found {
			return o
		}
	}
	var last time.Time
	version := uint64(oldest)
	if s.heartbeats != nil {
		last, version = s.heartbeats[i], s.versions[i]
	}
	o := s.build(i, last)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	return o
}

// find returns the object of that name, or nil if there is none.
func (s *store) find(namespace, name string) object {
	if o, found := s.written[key(namespace, name)]; found {
		return o
	}
	i, ok := number(name)
	if !ok || i < 0 || i >= s.count {
		return nil
	}
	if ns, n := s.names(i); ns != namespace || n != name {
		return nil
	}
	return s.at(i)
}

// places returns the number of places, including those of deleted objects; in returns the
// object of a place.
func (s *store) places() int { return s.count + len(s.created) }

func (s *store) in(place int) object {
	if place < s.count {
		return s.at(place)
	}
	return s.written[s.created[place-s.count]]
}

// put stores an object as the current one and notifies the watchers. The caller holds the lock
// and does not change the object any more.
func (c *Cluster) put(s *store, o object, kind eventKind) {
	c.version++
	o.SetResourceVersion(strconv.FormatUint(c.version, 10))
	k := key(o.GetNamespace(), o.GetName())
	if kind == deleted {
		s.written[k] = nil
	} else {
		if _, known := s.written[k]; !known && s.find(o.GetNamespace(), o.GetName()) == nil {
			s.created = append(s.created, k)
		}
		s.written[k] = o
	}
	c.note(o)
	s.notify(newEvent(kind, c.version, o))
}

// note stores the time at which a node was first marked Unknown.
func (c *Cluster) note(o object) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type != corev1.NodeReady {
			continue
		}
		if _, marked := c.unknown[n.Name]; !marked && n.Status.Conditions[i].Status == corev1.ConditionUnknown {
			c.unknown[n.Name] = time.Now()
		}
	}
}

// Unknown returns the time of the first Unknown mark of each node.
func (c *Cluster) Unknown() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unknown)
}

// Calls returns the number of calls by verb and resource, such as "PATCH nodes/status".
func (c *Cluster) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}
