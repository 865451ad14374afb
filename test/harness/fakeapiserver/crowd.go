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

// Crowd is a simulated cluster and the server of its API.
type Crowd struct {
	size        Size
	born        metav1.Time // creation time of everything
	nodePattern corev1.Node
	podPattern  corev1.Pod
	leaseFields []metav1.ManagedFieldsEntry
	shelves     map[schema.GroupResource]*shelf
	nodes       *shelf
	leases      *shelf

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
func New(size Size) *Crowd {
	now := time.Now()
	born := metav1.NewTime(now.Add(-30 * 24 * time.Hour).Truncate(time.Second))
	c := &Crowd{
		size: size, born: born, version: oldest, pace: 1,
		nodePattern: nodePattern(size.Images, born), podPattern: podPattern(born),
		leaseFields: []metav1.ManagedFieldsEntry{managed("kubelet", born, "holderIdentity", "leaseDurationSeconds", "renewTime")},
		calls:       map[string]int{}, unknown: map[string]time.Time{}, silent: map[int]time.Time{},
	}
	c.shelves = c.newShelves(now)
	c.nodes, c.leases = c.shelves[schema.GroupResource{Resource: "nodes"}], c.shelves[schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}]
	return c
}

// Size returns the configured size of the cluster.
func (c *Crowd) Size() Size { return c.size }

// shelf contains the objects of one resource. Unwritten objects are generated on request.
type shelf struct {
	gv       schema.GroupVersion
	kind     string
	names    func(i int) (namespace, name string)
	build    func(i int, heard time.Time) object
	count    int               // of generated objects
	heard    []time.Time       // last heartbeat of each generated object; nil for resources without heartbeats
	versions []uint64          // of each generated object; nil if only writes change the resource
	written  map[string]object // by key; nil for deleted objects
	created  []string          // keys of created objects, in creation order
	history  []event           // the last changes
	forgot   uint64            // version of the newest change dropped from the history
	watchers map[*watcher]struct{}
}

func (c *Crowd) newShelves(now time.Time) map[schema.GroupResource]*shelf {
	v1, coordination, apps := corev1.SchemeGroupVersion, schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	live := func(s *shelf) *shelf {
		s.heard, s.versions = slices.Repeat([]time.Time{now}, s.count), slices.Repeat([]uint64{oldest}, s.count)
		return s
	}
	shelves := map[schema.GroupResource]*shelf{
		{Resource: "nodes"}: live(&shelf{
			gv: v1, kind: "Node", count: c.size.Nodes,
			names: func(i int) (string, string) { return "", NodeName(i) },
			build: func(i int, heard time.Time) object { return c.node(i, heard) },
		}),
		{Group: coordination.Group, Resource: "leases"}: live(&shelf{
			gv: coordination, kind: "Lease", count: c.size.Nodes,
			names: func(i int) (string, string) { return corev1.NamespaceNodeLease, NodeName(i) },
			build: func(i int, heard time.Time) object { return c.lease(i, heard) },
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
	for _, s := range shelves {
		s.written, s.watchers, s.forgot = map[string]object{}, map[*watcher]struct{}{}, oldest
	}
	return shelves
}

func key(namespace, name string) string { return namespace + "/" + name }

// at returns the object with that number, or nil if it was deleted.
func (s *shelf) at(i int) object {
	if len(s.written) > 0 {
		if o, found := s.written[key(s.names(i))]; found {
			return o
		}
	}
	var heard time.Time
	version := uint64(oldest)
	if s.heard != nil {
		heard, version = s.heard[i], s.versions[i]
	}
	o := s.build(i, heard)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	return o
}

// find returns the object of that name, or nil if there is none.
func (s *shelf) find(namespace, name string) object {
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
func (s *shelf) places() int { return s.count + len(s.created) }

func (s *shelf) in(place int) object {
	if place < s.count {
		return s.at(place)
	}
	return s.written[s.created[place-s.count]]
}

// put stores an object as the current one and notifies the watchers. The caller holds the lock
// and does not change the object any more.
func (c *Crowd) put(s *shelf, o object, kind eventKind) {
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
	s.tell(newEvent(kind, c.version, o))
}

// note stores the time at which a node was first marked Unknown.
func (c *Crowd) note(o object) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type != corev1.NodeReady {
			continue
		}
		if _, told := c.unknown[n.Name]; !told && n.Status.Conditions[i].Status == corev1.ConditionUnknown {
			c.unknown[n.Name] = time.Now()
		}
	}
}

// Unknown returns the time of the first Unknown mark of each node.
func (c *Crowd) Unknown() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unknown)
}

// Calls returns the number of calls by verb and resource, such as "PATCH nodes/status".
func (c *Crowd) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}
