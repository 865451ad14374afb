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

// An object is one of the API. Once it was handed on it is not changed any more.
type object interface {
	runtime.Object
	metav1.Object
}

// A Crowd is a cluster and the server of its API.
type Crowd struct {
	size        Size
	born        metav1.Time // when everything was created
	nodePattern corev1.Node
	podPattern  corev1.Pod
	leaseFields []metav1.ManagedFieldsEntry
	shelves     map[schema.GroupResource]*shelf
	nodes       *shelf
	leases      *shelf

	mu      sync.Mutex // guards what follows, and every shelf
	version uint64     // resourceVersion of the last change
	calls   map[string]int
	unknown map[string]time.Time // nodes of which somebody wrote that they are silent, and when
	beats   Beats
	pace    float64
	silent  map[int]time.Time // nodes whose kubelet has died, and when they were last heard
}

// oldest is the resourceVersion of what was never changed.
const oldest = 1_000_000

// New makes a cluster, a month old, whose nodes all have just been heard.
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

// Size is how large the cluster was made.
func (c *Crowd) Size() Size { return c.size }

// A shelf holds the objects of one resource. What nobody has written is made
// when it is asked for.
type shelf struct {
	gv       schema.GroupVersion
	kind     string
	names    func(i int) (namespace, name string)
	build    func(i int, heard time.Time) object
	count    int               // of made objects
	heard    []time.Time       // of each made one; nil where nothing is heard
	versions []uint64          // of each made one; nil where none ever changes unwritten
	written  map[string]object // by key; nil for what is gone
	created  []string          // keys of those that were not made, as they came
	history  []event           // the last changes
	forgot   uint64            // version of the last change that the history has lost
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

// at is the object with that number, nil if it is gone.
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

// find is the object of that name, nil if there is none.
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

// places is how many objects there may be, those that are gone too: at says
// what is in each.
func (s *shelf) places() int { return s.count + len(s.created) }

func (s *shelf) in(place int) object {
	if place < s.count {
		return s.at(place)
	}
	return s.written[s.created[place-s.count]]
}

// put makes an object the present one and tells the watchers. The caller holds
// the lock and does not touch the object any more.
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

// note keeps when a node was first said to be silent.
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

// Unknown says when each node was first written to be Unknown.
func (c *Crowd) Unknown() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unknown)
}

// Calls says how often what was called, such as "PATCH nodes/status".
func (c *Crowd) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}
