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

// reference is a simple reference model of the queue. It has the real events on the node, which the
// queue has to detect.
type reference struct {
	*harness
	rand      *rand.Rand
	stop      func()
	node      map[string]string // running container by pod UID; "" for none
	started   int
	histories []*history
}

// history is the history of one notice.
type history struct {
	n         Notice
	killed    bool // its containers were
	asked     bool // Evicted was called: the status may have been reported
	disturbed bool // the pod ran again, was deleted or killed once more
	replaced  bool // the pod was deleted: the cause of its end is unknown
	statuses  int
}

func newReference(t *testing.T, seed uint64) *reference {
	h := &reference{rand: rand.New(rand.NewPCG(seed, 1)), node: map[string]string{}}
	h.harness = newHarness(t, Options{Running: h.running})
	for i := range 3 {
		h.start(fmt.Sprintf("p%d", i), 0)
	}
	h.server.watch = h.watch
	h.stop = h.run(nil)
	return h
}

// running returns the containers of the runtime.
func (h *reference) running(_ context.Context, uid string) ([]string, error) {
	if id := h.runs(uid); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// runs returns the running container of a pod, if any.
func (h *reference) runs(uid string) (id string) {
	h.with(func() { id = h.node[uid] })
	return id
}

func (h *reference) kill(f *history) {
	f.killed = true
	h.with(func() { h.node[f.n.UID] = "" })
}

// start creates a new pod with a name.
func (h *reference) start(name string, life int) {
	n := notice(name)
	n.UID = fmt.Sprintf("%s-%d", name, life)
	n.Decided = time.Now()
	h.put(running(n))
	h.restart(name, true)
}

// restart starts a container in a pod; the kubelet may report it late. It overwrites the status
// that was reported before. The server is locked, so that no report comes in between.
func (h *reference) restart(name string, reported bool) {
	pod := h.pods["shop/"+name]
	h.started++
	id := fmt.Sprintf("id-%d", h.started)
	h.node[string(pod.UID)] = id
	if reported || pod.Status.Phase == corev1.PodFailed {
		pod = pod.DeepCopy()
		pod.Status.ContainerStatuses[0] = runs(id, time.Now())
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodRunning, "", ""
		h.put(pod)
	}
}

func (h *reference) disturb(uid string, replaced bool) {
	for _, f := range h.histories {
		if f.n.UID == uid {
			f.disturbed, f.replaced = true, f.replaced || replaced
		}
	}
}

// successor ends the program, and starts it with the stored state.
func (h *reference) successor() {
	h.stop()
	previous := h.saved
	h.Reporter = New(h.client, "node-1", h.log, func(d []PendingStatus) { h.saved = d }, h.options)
	h.stop = h.run(previous)
	synctest.Wait()
}

// evict performs one eviction, which may be interrupted at any point.
func (h *reference) evict(pod *corev1.Pod) {
	id := h.runs(string(pod.UID))
	if id == "" {
		return
	}
	wait(h.t, 1001*time.Millisecond) // a start in the second of a decision counts as later
	n := notice(pod.Name)
	n.UID, n.Decided, n.Killed = string(pod.UID), time.Now(), []string{id}
	n.Message = fmt.Sprintf("eviction %d", len(h.histories))
	h.disturb(n.UID, false)
	f := &history{n: n}
	h.with(func() { h.histories = append(h.histories, f) })
	h.Enqueue(n)
	if h.rand.IntN(8) == 0 {
		h.successor() // before the kill
		return
	}
	if h.rand.IntN(3) > 0 {
		f.asked = true
		ctx, cancel := context.WithTimeout(h.t.Context(), 100*time.Millisecond)
		_ = h.Evicted(ctx, n)
		cancel()
	}
	switch h.rand.IntN(8) {
	case 0:
		h.Cancel(n.UID)
		h.overwriteStatus(n.Name)
		return
	case 1:
		h.kill(f)
		h.successor() // before it was recorded
		return
	}
	h.kill(f)
	h.Commit(n.UID)
}

// overwriteStatus is a kubelet that overwrites the Failed status of a running pod.
func (h *reference) overwriteStatus(name string) {
	h.with(func() {
		pod := h.pods["shop/"+name].DeepCopy()
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodRunning, "", ""
		h.put(pod)
	})
}

// watch checks every status before it is written.
func (h *reference) watch(body patch) {
	for _, f := range h.histories {
		if f.n.UID != body.Metadata.UID || f.n.Message != body.Status.Message {
			continue
		}
		f.statuses++
		if id := h.node[f.n.UID]; id != "" && id != f.n.Killed[0] {
			h.t.Errorf("%s was reported for a pod in which container %s has started since", f.n.Message, id)
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

// step performs one random action. It begins once Run has nothing left to do at this moment. A start of
// a container between Run's request to the runtime and its patch is not modelled: neither of the two
// has it, and the first status with it is the kubelet's next one.
func (h *reference) step() {
	synctest.Wait()
	name := fmt.Sprintf("p%d", h.rand.IntN(3))
	pod := h.pod(name)
	switch h.rand.IntN(10) {
	case 0, 1, 2:
		h.evict(pod)
	case 3, 4:
		if h.runs(string(pod.UID)) == "" {
			h.disturb(string(pod.UID), false)
			h.with(func() { h.restart(name, h.rand.IntN(2) == 0) })
		}
	case 5:
		if h.rand.IntN(3) == 0 {
			h.disturb(string(pod.UID), true)
			h.with(func() { h.start(name, len(h.histories)+100) })
		}
	case 6:
		h.successor()
	case 7:
		h.broken(troubles[h.rand.IntN(len(troubles))])
	case 8:
		h.broken(nil)
	default:
		wait(h.t, time.Duration(h.rand.IntN(30_000))*time.Millisecond)
	}
}

func TestReporter_MatchesReference(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			h := newReference(t, seed)
			defer func() { h.stop() }()
			for range 60 {
				h.step()
			}
			h.broken(nil)
			wait(t, 10*time.Minute)
			h.compare(seed)
		})
		if t.Failed() {
			return
		}
	}
}

// compare compares the queue with the model.
func (h *reference) compare(seed uint64) {
	if h.PendingCount() != 0 || len(h.saved) != 0 {
		h.t.Errorf("seed %d: got pending %+v, want none", seed, h.Outstanding())
	}
	unexplained := maps.Clone(h.events)
	for _, f := range h.histories {
		key := "shop/" + eventName(&f.n)
		reported := h.events[key] != nil
		delete(unexplained, key)
		if unknowable := !f.killed && (f.asked || f.replaced); reported != f.killed && !unknowable {
			h.t.Errorf("seed %d: %s: killed %v, got event %v\n%s", seed, f.n.Message, f.killed, reported, h.lines)
		}
		if f.statuses > 1 || f.statuses == 0 && f.killed && !f.disturbed {
			h.t.Errorf("seed %d: %s was reported %d times (killed %v, disturbed %v)\n%s", seed, f.n.Message, f.statuses, f.killed, f.disturbed, h.lines)
		}
	}
	if len(unexplained) > 0 {
		h.t.Errorf("seed %d: got events without an eviction: %v", seed, slices.Collect(maps.Keys(unexplained)))
	}
}
