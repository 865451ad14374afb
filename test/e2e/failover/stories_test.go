package failover

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

func TestStories(t *testing.T) {
	s := set(t)
	s.story("a silent node's pods leave by taints and tolerations", byTaints)
	s.story("a node that is not ready is believed", byItsOwnReport)
	s.story("without taints pods leave after a while", byTimeout)
	s.story("who observes writes nothing", observed)
	s.story("nobody is dead because the API server stands still", whilePaused)
	s.story("nobody is dead because a watch tells nothing, or by a wrong clock", whileFrozen)
	s.story("an agent gives a second opinion", bySecondOpinion)
	s.story("an agent asks for a soft eviction", softly)
	s.story("what a dead agent left is cleared away", leavings)
	s.story("what is left of evicted pods is deleted in its time", remnants)
}

// silenced lists the conditions that become Unknown with a node.
var silenced = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// unknown waits until a node is Unknown, due a grace period after its last heartbeat. It
// returns the time of the write.
func (s *stage) unknown(n *hollow.Node, last hollow.Beat) time.Time {
	s.Helper()
	s.until(n.Name+" is Unknown", func() bool { return s.book.Node(n.Name).Is(corev1.NodeReady) == corev1.ConditionUnknown })
	w := s.first("somebody wrote it", func(w *recorder.Write) bool {
		return w.Resource == "nodes/status" && w.Name == n.Name && w.Changes() && w.Done()
	})
	if earliest := last.Sent.Add(grace); w.At.Before(earliest) {
		s.Errorf("%s is Unknown %v before its grace period is over", n.Name, earliest.Sub(w.At))
	}
	s.during(n.Name+" is Unknown", w.At, last.Sent.Add(grace), last.Done.Add(grace))
	for _, kind := range silenced {
		c := s.book.Node(n.Name).Condition(kind)
		if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || !strings.HasPrefix(c.Message, "Kubelet stopped posting node status.") {
			s.Errorf("%s: %+v", n.Name, c)
		}
	}
	return w.At
}

// tainted waits for the NoExecute taint of a key. It returns the time by the taint itself, and
// that of the write.
func (s *stage) tainted(n *hollow.Node, key string) (added, written time.Time) {
	s.Helper()
	s.until(n.Name+" is tainted "+key, func() bool { return s.book.Node(n.Name).Taint(key, corev1.TaintEffectNoExecute) != nil })
	w := s.first("somebody wrote it", func(w *recorder.Write) bool {
		return w.Resource == "nodes" && w.Name == n.Name && w.Changes() && w.Done() && taintOf(w, key) != nil
	})
	taint := taintOf(w, key)
	if taint.TimeAdded == nil {
		s.Fatalf("the taint %s of %s does not say since when", key, n.Name)
	}
	return taint.TimeAdded.Time, w.At
}

// taintOf returns the NoExecute taint of a key in the answer to a request.
func taintOf(w *recorder.Write, key string) *corev1.Taint {
	return stateOf(w).Taint(key, corev1.TaintEffectNoExecute)
}

// evicted waits for the only request to delete a pod, due between two moments, and checks its
// consequences.
func (s *stage) evicted(pod *corev1.Pod, from, to time.Time) {
	s.Helper()
	s.until(pod.Name+" is deleted", func() bool { return len(s.deleted(pod)) > 0 })
	w := s.deleted(pod)[0]
	s.during(pod.Name+" is deleted", w.At, from, to)
	var sent metav1.DeleteOptions
	if err := json.Unmarshal(w.Sent, &sent); err != nil || sent.Preconditions == nil || *sent.Preconditions.UID != pod.UID {
		s.Errorf("pod %s was deleted with %s, %v: any pod of its name", pod.Name, w.Sent, err)
	}
}

// disrupted checks the reports about a pod evicted for a taint.
func (s *stage) disrupted(pod *corev1.Pod) {
	s.Helper()
	s.until("an event tells of "+pod.Name, func() bool {
		return s.has(pod, "TaintManagerEviction", "Marking for deletion Pod default/"+pod.Name)
	})
	c := s.book.Pod(pod.UID).Condition(corev1.DisruptionTarget)
	if c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" {
		s.Errorf("pod %s: %+v", pod.Name, c)
	}
}

func (s *stage) notReady(pod *corev1.Pod) {
	s.Helper()
	s.until(pod.Name+" is not ready", func() bool {
		return s.book.Pod(pod.UID).Condition(corev1.PodReady).Status == corev1.ConditionFalse
	})
}

// byTaints checks that the pods of a silent node are evicted after their toleration. Pods
// within their toleration when the node returns stay.
func byTaints(s *stage) {
	s.controllers(2)
	dead, rock := s.node("silent"), s.node("rock")
	quick, slow, lasting := s.run(dead, hollow.Pod("quick", 2)), s.run(dead, hollow.Pod("slow", 5)), s.run(dead, hollow.Pod("lasting", hollow.Default))
	bystander := s.run(rock, hollow.Pod("bystander", 0))
	s.until("the node may be used", func() bool { return s.book.Node("silent").Tainted(corev1.TaintEffectNoSchedule) == "" })

	last := dead.Stop()
	s.unknown(dead, last)
	added, written := s.tainted(dead, corev1.TaintNodeUnreachable)
	s.during("by the taint, it was added", added, written, written)
	if keys := s.book.Node("silent").Tainted(corev1.TaintEffectNoSchedule); keys != corev1.TaintNodeUnreachable {
		s.Errorf("tainted NoSchedule: %s", keys)
	}
	for _, pod := range []*corev1.Pod{quick, slow, lasting} {
		s.notReady(pod)
	}
	s.until("an event", func() bool {
		return s.has(quick, "NodeNotReady", "Node is not ready") && len(s.book.Events(dead.UID, "NodeNotReady")) == 1
	})
	s.evicted(quick, added.Add(2*time.Second), written.Add(2*time.Second))
	s.disrupted(quick)

	s.must(dead.Resume(s.Context()))
	back := time.Now()
	s.until("it is not tainted", func() bool {
		n := s.book.Node("silent")
		return n.Tainted(corev1.TaintEffectNoExecute) == "" && n.Tainted(corev1.TaintEffectNoSchedule) == ""
	})
	s.during("it is not tainted", s.book.Node("silent").At, back, back)
	s.until("the eviction is called off", func() bool {
		return s.has(slow, "TaintManagerEviction", "Cancelling deletion of Pod default/slow")
	})
	pass(s.Context(), time.Until(written.Add(5*time.Second+slack)))
	for _, pod := range []*corev1.Pod{slow, lasting, bystander} {
		if p := s.book.Pod(pod.UID); p.Leaving() || len(s.deleted(pod)) > 0 {
			s.Errorf("pod %s was deleted", pod.Name)
		}
	}
	if n := len(s.deleted(quick)); n != 1 {
		s.Errorf("pod quick was deleted %d times", n)
	}
	s.untouched("rock")
}

// untouched checks that these nodes were always considered alive in this story.
func (s *stage) untouched(names ...string) {
	s.Helper()
	for _, name := range names {
		for _, n := range s.book.NodeStates(name) {
			if keys := n.Tainted(corev1.TaintEffectNoExecute); n.At.After(s.began) && (keys != "" || n.Is(corev1.NodeReady) == corev1.ConditionUnknown) {
				s.Errorf("node %s lives: at %s it is %s, tainted %q", name, n.At.Format("15:04:05.000"), n.Is(corev1.NodeReady), keys)
				break
			}
		}
	}
}

// byItsOwnReport checks that a node that reports Ready False is tainted at once. Its kubelet
// ends the pods and writes their readiness. If the node then falls silent, the taint is
// replaced by the other one, and its pods are marked.
func byItsOwnReport(s *stage) {
	s.controllers(1)
	ill, _ := s.node("ill"), s.node("well")
	pod, later := s.run(ill, hollow.Pod("first", 1)), s.run(ill, hollow.Pod("later", 8))
	s.must(ill.Report(s.Context(), corev1.ConditionFalse))
	since := time.Now()
	added, written := s.tainted(ill, corev1.TaintNodeNotReady)
	s.during("it is tainted", written, since, since)
	s.evicted(pod, added.Add(time.Second), written.Add(time.Second))
	s.until("its kubelet ends it", func() bool { return s.book.Pod(pod.UID).Gone })
	if c := s.book.Pod(later.UID).Condition(corev1.PodReady); c.Status != corev1.ConditionTrue {
		s.Errorf("a kubelet that lives writes the readiness of its pods, but pod later is %+v", c)
	}

	last := ill.Stop()
	s.unknown(ill, last)
	s.notReady(later)
	swapped, _ := s.tainted(ill, corev1.TaintNodeUnreachable)
	s.until("one taint takes the place of the other", func() bool {
		return s.book.Node("ill").Tainted(corev1.TaintEffectNoExecute) == corev1.TaintNodeUnreachable
	})
	if !swapped.Equal(added) {
		s.Errorf("tainted not-ready at %v, unreachable at %v: pods tolerate one trouble", added, swapped)
	}
	s.evicted(later, added.Add(8*time.Second), written.Add(8*time.Second))
	if at, due := s.deleted(later)[0].At, written.Add(8*time.Second); at.Before(due) {
		s.Errorf("pod later is deleted %v before its time", due.Sub(at))
	}
	s.untouched("well")
}

// byTimeout checks the mode without taints: a silent node's pods are deleted after a timeout,
// except those of DaemonSets.
func byTimeout(s *stage) {
	const timeout = 6 * time.Second
	s.controllers(1, "--enable-taint-manager=false", "--pod-eviction-timeout="+timeout.String())
	dead, _ := s.node("lost"), s.node("found")
	controls := true
	daemon := hollow.Pod("daemon", hollow.Default)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &controls}}
	web, daemon := s.run(dead, hollow.Pod("web", 0)), s.run(dead, daemon)
	last := dead.Stop()
	s.unknown(dead, last)
	s.evicted(web, last.Sent.Add(timeout), last.Done.Add(timeout))
	if p := s.book.Pod(web.UID); p.Status.Reason != "NodeLost" || p.Status.Message == "" {
		s.Errorf("pod web: reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	s.until("events", func() bool {
		return len(s.book.Events(dead.UID, "DeletingAllPods")) == 1 &&
			s.has(web, "NodeControllerEviction", "Marking for deletion Pod web from Node lost")
	})
	s.notReady(daemon)
	pass(s.Context(), slack)
	if s.book.Pod(daemon.UID).Leaving() {
		s.Error("the pod of a DaemonSet was deleted")
	}
	if keys := s.book.Node("lost").Tainted(corev1.TaintEffectNoExecute); keys != "" {
		s.Errorf("tainted %s", keys)
	}
	s.untouched("found")
}

// observed checks that a controller in mode observe decides as usual, and writes only the
// leader's lease.
func observed(s *stage) {
	watcher := s.controllers(1, "--mode=observe", "--evicted-pod-ttl=1s")[0]
	dead, rock := s.node("seen"), s.node("rock")
	pod := s.run(dead, hollow.Pod("seen", 1))
	s.run(rock, hollow.Pod("kept", 1))
	s.fail(s.run(dead, hollow.Pod("left", 1)), corev1.ConditionTrue)
	dead.Stop()
	before := s.versions(dead, pod)
	for _, decision := range []string{"mark-unknown", "taint", "mark-not-ready", "evict", "delete-evicted-pod"} {
		s.poll("it tells of "+decision, func() bool {
			return watcher.decided(func(l *said) bool {
				return l.Decision == decision && l.DryRun && (l.Node == "seen" || l.Pod == "default/seen")
			})
		})
	}
	if watcher.decided(func(l *said) bool { return l.Decision == "evict" && l.Pod == "default/kept" || !l.DryRun }) {
		s.Error("it decided about a node that lives, or without rehearsing")
	}
	for _, w := range s.writes((*recorder.Write).Changes) {
		if w.Resource != "leases" || w.Namespace != namespace || w.Name != account {
			s.Errorf("who observes wrote %s", w)
		}
	}
	if after := s.versions(dead, pod); after != before {
		s.Errorf("versions of the node and its pod: %v, %v", before, after)
	}
}

// versions returns the resource versions of a node and a pod, which change with every write.
func (s *stage) versions(n *hollow.Node, p *corev1.Pod) (versions [2]string) {
	s.Helper()
	node, err := s.api.CoreV1().Nodes().Get(s.Context(), n.Name, metav1.GetOptions{})
	s.must(err)
	pod, err := s.api.CoreV1().Pods(p.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
	s.must(err)
	return [2]string{node.ResourceVersion, pod.ResourceVersion}
}
