package podstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// twin is a simple reference model of the queue. It knows the real events on the node, which the
// queue has to detect.
type twin struct {
	*world
	rand    *rand.Rand
	stop    func()
	node    map[string]string // running container by pod UID; "" for none
	started int
	fates   []*fate
}

// fate is the history of one notice.
type fate struct {
	n         Notice
	killed    bool // its containers were
	asked     bool // Evicted was called: the status may have been reported
	disturbed bool // the pod ran again, was deleted or killed once more
	replaced  bool // the pod was deleted: the cause of its end is unknown
	statuses  int
}

func newTwin(t *testing.T, seed uint64) *twin {
	w := &twin{rand: rand.New(rand.NewPCG(seed, 1)), node: map[string]string{}}
	w.world = newWorld(t, Options{Running: w.running})
	for i := range 3 {
		w.start(fmt.Sprintf("p%d", i), 0)
	}
	w.server.watch = w.watch
	w.stop = w.run(nil)
	return w
}

// running returns the containers of the runtime.
func (w *twin) running(_ context.Context, uid string) ([]string, error) {
	if id := w.runs(uid); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// runs returns the running container of a pod, if any.
func (w *twin) runs(uid string) (id string) {
	w.with(func() { id = w.node[uid] })
	return id
}

func (w *twin) kill(f *fate) {
	f.killed = true
	w.with(func() { w.node[f.n.UID] = "" })
}

// start creates a new pod with a name.
func (w *twin) start(name string, life int) {
	n := notice(name)
	n.UID = fmt.Sprintf("%s-%d", name, life)
	n.Decided = time.Now()
	w.put(running(n))
	w.restart(w.pods["shop/"+name], true)
}

// restart starts a container in a pod; the kubelet may report it late. It overwrites the status
// that was reported before.
func (w *twin) restart(pod *corev1.Pod, reported bool) {
	w.started++
	id := fmt.Sprintf("id-%d", w.started)
	w.node[string(pod.UID)] = id
	if reported || pod.Status.Phase == corev1.PodFailed {
		pod = pod.DeepCopy()
		pod.Status.ContainerStatuses[0] = runs(id, time.Now())
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodRunning, "", ""
		w.put(pod)
	}
}

func (w *twin) disturb(uid string, replaced bool) {
	for _, f := range w.fates {
		if f.n.UID == uid {
			f.disturbed, f.replaced = true, f.replaced || replaced
		}
	}
}

// successor ends the program, and starts it with the stored state.
func (w *twin) successor() {
	w.stop()
	previous := w.saved
	w.Reporter = New(w.client, "node-1", w.log, func(d []PendingStatus) { w.saved = d }, w.options)
	w.stop = w.run(previous)
	synctest.Wait()
}

// evict performs one eviction, which may be interrupted at any point.
func (w *twin) evict(pod *corev1.Pod) {
	id := w.runs(string(pod.UID))
	if id == "" {
		return
	}
	wait(w.t, 1001*time.Millisecond) // a start in the second of a decision counts as later
	n := notice(pod.Name)
	n.UID, n.Decided, n.Killed = string(pod.UID), time.Now(), []string{id}
	n.Message = fmt.Sprintf("eviction %d", len(w.fates))
	w.disturb(n.UID, false)
	f := &fate{n: n}
	w.with(func() { w.fates = append(w.fates, f) })
	w.Enqueue(n)
	if w.rand.IntN(8) == 0 {
		w.successor() // before the kill
		return
	}
	if w.rand.IntN(3) > 0 {
		f.asked = true
		ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
		_ = w.Evicted(ctx, n)
		cancel()
	}
	switch w.rand.IntN(8) {
	case 0:
		w.Cancel(n.UID)
		w.takeBack(n.Name)
		return
	case 1:
		w.kill(f)
		w.successor() // before it was recorded
		return
	}
	w.kill(f)
	w.Commit(n.UID)
}

// takeBack is a kubelet that overwrites the Failed status of a running pod.
func (w *twin) takeBack(name string) {
	pod := w.pod(name)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodRunning, "", ""
	w.with(func() { w.put(pod) })
}

// watch checks every status before it is written.
func (w *twin) watch(body patch) {
	for _, f := range w.fates {
		if f.n.UID != body.Metadata.UID || f.n.Message != body.Status.Message {
			continue
		}
		f.statuses++
		if id := w.node[f.n.UID]; id != "" && id != f.n.Killed[0] {
			w.t.Errorf("%s was told of a pod in which container %s has started since", f.n.Message, id)
		}
	}
}

var troubles = []fault{
	refusedConnection, hang, balancer,
	lost, only("PATCH", lost), only("POST", lost),
	answering(apierrors.NewInternalError(errors.New("etcd"))),
	answering(apierrors.NewTooManyRequests("later", 20)),
	only("PATCH", answering(apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("modified")))),
	only("POST", answering(apierrors.NewResourceExpired("gone"))),
	only("GET", answering(apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("RBAC")))),
}

func (w *twin) step() {
	name := fmt.Sprintf("p%d", w.rand.IntN(3))
	pod := w.pod(name)
	switch w.rand.IntN(10) {
	case 0, 1, 2:
		w.evict(pod)
	case 3, 4:
		if w.runs(string(pod.UID)) == "" {
			w.disturb(string(pod.UID), false)
			w.with(func() { w.restart(pod, w.rand.IntN(2) == 0) })
		}
	case 5:
		if w.rand.IntN(3) == 0 {
			w.disturb(string(pod.UID), true)
			w.with(func() { w.start(name, len(w.fates)+100) })
		}
	case 6:
		w.successor()
	case 7:
		w.broken(troubles[w.rand.IntN(len(troubles))])
	case 8:
		w.broken(nil)
	default:
		wait(w.t, time.Duration(w.rand.IntN(30_000))*time.Millisecond)
	}
}

func TestTheLedgerAgainstATwin(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwin(t, seed)
			defer func() { w.stop() }()
			for range 60 {
				w.step()
			}
			w.broken(nil)
			wait(t, 10*time.Minute)
			w.settle(seed)
		})
		if t.Failed() {
			return
		}
	}
}

// settle compares the queue with the model.
func (w *twin) settle(seed uint64) {
	if w.Debts() != 0 || len(w.saved) != 0 {
		w.t.Errorf("seed %d: still owed: %+v", seed, w.Outstanding())
	}
	unexplained := maps.Clone(w.events)
	for _, f := range w.fates {
		key := "shop/" + eventName(&f.n)
		told := w.events[key] != nil
		delete(unexplained, key)
		if unknowable := !f.killed && (f.asked || f.replaced); told != f.killed && !unknowable {
			w.t.Errorf("seed %d: %s: killed %v, event %v\n%s", seed, f.n.Message, f.killed, told, w.lines)
		}
		if f.statuses > 1 || f.statuses == 0 && f.killed && !f.disturbed {
			w.t.Errorf("seed %d: %s was told %d times (killed %v, disturbed %v)\n%s", seed, f.n.Message, f.statuses, f.killed, f.disturbed, w.lines)
		}
	}
	if len(unexplained) > 0 {
		w.t.Errorf("seed %d: events of nothing: %v", seed, slices.Collect(maps.Keys(unexplained)))
	}
}
