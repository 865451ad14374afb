package lookup

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/why"
)

// maxShown bounds the evictions of one answer.
const maxShown = 10_000

// found is the result of a search.
type found struct {
	evictions  []why.Explanation // the latest first
	nodes      int               // with a record
	unreadable int               // records of a form that this version does not know
	node       string            // the records of this node alone were read; empty: those of all nodes
	pod        *corev1.Pod       // nil: the API server has no such pod, or it was not read
	podErr     error             // of reading it
	// onlyEarlier: the pod has no eviction, and earlier pods of its name have.
	onlyEarlier bool
}

// search reads the records of the requested node, or of all nodes. For a pod that the API server has, it reads those
// of the pod's node first: if they have an eviction of the same UID, no other node has another one. Returns an
// error if the records cannot be read.
func (r *Request) search(ctx context.Context) (found, error) {
	if r.Node != "" {
		return r.readNode(ctx, r.Node)
	}
	all := found{}
	if r.Pod != "" && !r.AllNodes {
		all.pod, all.podErr = r.readPod(ctx) // without it, all records are read
	}
	if all.pod != nil && all.pod.Spec.NodeName != "" {
		of, err := r.readNode(ctx, all.pod.Spec.NodeName)
		if err == nil && of.has(all.pod) {
			of.pod = all.pod
			return of, nil
		}
	}
	err := store.Each(ctx, r.Client, r.Namespace, func(n store.Node) { all.add(r, n) })
	all.onlyEarlier = all.pod != nil && len(all.evictions) > 0 && !all.has(all.pod)
	return all, err
}

// readNode reads the records of one node. Returns an error if they cannot be read.
func (r *Request) readNode(ctx context.Context, node string) (found, error) {
	f := found{node: node}
	n, is, err := store.Get(ctx, r.Client, r.Namespace, node)
	if is {
		f.add(r, n)
	}
	return f, err
}

// readPod reads the requested pod. It returns nil without an error if there is none. Returns an error if it cannot be
// read.
func (r *Request) readPod(ctx context.Context) (*corev1.Pod, error) {
	namespace, name, _ := strings.Cut(r.Pod, "/")
	pod, err := r.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return pod, nil
}

// add adds the requested records of a node.
func (f *found) add(r *Request, n store.Node) {
	f.nodes++
	f.unreadable += n.Unreadable
	for i := range n.Records {
		if e := &n.Records[i]; (r.Pod == "" || e.Pod == r.Pod) && !f.isFalse(e.UID, n.Name) {
			f.evictions = append(f.evictions, why.Explanation{Node: n.Name, Eviction: e})
		}
	}
	f.bound(r.Last, r.Now())
}

// isFalse reports whether a record of another node has the UID of the pod, which was on no node but its own: a thief of
// the token of that other node wrote it. The UID of a static pod does not count here: it is an annotation of the mirror
// pod, and with one of their choice, authors of pods could hide the records of an earlier pod.
func (f *found) isFalse(uid, node string) bool {
	return f.pod != nil && uid == string(f.pod.UID) && node != f.pod.Spec.NodeName
}

// has reports whether the records of a pod's node have the pod. A static pod has another UID there than its mirror pod
// in the API.
func (f *found) has(pod *corev1.Pod) bool {
	uid := agentpods.UID(pod)
	return slices.ContainsFunc(f.evictions, func(e why.Explanation) bool { return e.Eviction.UID == uid && e.Node == pod.Spec.NodeName })
}

// bound sorts the evictions, and drops those beyond the latest ones. 0 is maxShown.
func (f *found) bound(last int, now time.Time) {
	if last == 0 || last > maxShown {
		last = maxShown
	}
	why.Newest(f.evictions, now)
	f.evictions = f.evictions[:min(len(f.evictions), last)]
}
