package failover

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

func TestController_RunsScenarios(t *testing.T) {
	s := set(t)
	s.scenario("a silent node's pods leave by taints and tolerations", byTaints)
	s.scenario("a node that is not ready is believed", byItsOwnReport)
	s.scenario("eviction after a timeout without taints", byTimeout)
	s.scenario("observe mode without writes", observed)
	s.scenario("paused API server", whilePaused)
	s.scenario("frozen watch and wrong clock", whileFrozen)
	s.scenario("second opinion of an agent", bySecondOpinion)
	s.scenario("soft eviction requested by an agent", softEvictions)
	s.scenario("cleanup after a dead agent", remainsOfAgent)
	s.scenario("deletion of evicted pods after their TTL", remnants)
}

// unknownTypes lists the conditions that become Unknown with a node.
var unknownTypes = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// unknown waits until a node is Unknown, due a grace period after its last heartbeat.
func (s *env) unknown(n *hollow.Node, last hollow.Beat) {
	s.Helper()
	s.until(n.Name+" is Unknown", func() bool { return s.rec.Node(n.Name).Is(corev1.NodeReady) == corev1.ConditionUnknown })
	w := s.first("a controller wrote it", func(w *recorder.Write) bool {
		return w.Resource == "nodes/status" && w.Name == n.Name && w.Changes() && w.Done()
	})
	s.notBefore(n.Name+" is Unknown", w.At, last.Sent.Add(grace))
	for _, kind := range unknownTypes {
		c := s.rec.Node(n.Name).Condition(kind)
		if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || !strings.HasPrefix(c.Message, "Kubelet stopped posting node status.") {
			s.Errorf("%s: %+v", n.Name, c)
		}
	}
}

// tainted waits for the NoExecute taint of a key. It returns the time by the taint itself, and
// that of the write.
func (s *env) tainted(n *hollow.Node, key string) (added, written time.Time) {
	s.Helper()
	s.until(n.Name+" is tainted "+key, func() bool { return s.rec.Node(n.Name).Taint(key, corev1.TaintEffectNoExecute) != nil })
	w := s.first("a controller wrote it", func(w *recorder.Write) bool {
		return w.Resource == "nodes" && w.Name == n.Name && w.Changes() && w.Done() && taintOf(w, key) != nil
	})
	taint := taintOf(w, key)
	if taint.TimeAdded == nil {
		s.Fatalf("the taint %s of %s has no timeAdded", key, n.Name)
	}
	return taint.TimeAdded.Time, w.At
}

// taintOf returns the NoExecute taint of a key in the answer to a request.
func taintOf(w *recorder.Write, key string) *corev1.Taint {
	return stateOf(w).Taint(key, corev1.TaintEffectNoExecute)
}

// evicted waits for the first request to delete a pod, not before it is due, and checks its precondition.
func (s *env) evicted(pod *corev1.Pod, due time.Time) {
	s.Helper()
	s.until(pod.Name+" is deleted", func() bool { return len(s.deleted(pod)) > 0 })
	w := s.deleted(pod)[0]
	s.notBefore(pod.Name+" is deleted", w.At, due)
	var sent metav1.DeleteOptions
	if err := json.Unmarshal(w.Sent, &sent); err != nil || sent.Preconditions == nil || *sent.Preconditions.UID != pod.UID {
		s.Errorf("pod %s was deleted with %s, %v: any pod of its name", pod.Name, w.Sent, err)
	}
}

// disrupted checks the reports about a pod evicted for a taint.
func (s *env) disrupted(pod *corev1.Pod) {
	s.Helper()
	s.until("an event reports "+pod.Name, func() bool {
		return s.has(pod, "TaintManagerEviction", "Marking for deletion Pod default/"+pod.Name)
	})
	c := s.atDeletion(pod).Condition(corev1.DisruptionTarget)
	if c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" {
		s.Errorf("pod %s: %+v", pod.Name, c)
	}
}

// atDeletion waits until a pod's deletion is recorded, and returns the pod at that moment. What was written before its
// deletion is in this state. When a request is known from the audit, the record of states may still lack it.
func (s *env) atDeletion(pod *corev1.Pod) *recorder.Pod {
	s.Helper()
	s.until(pod.Name+" is recorded as deleted", func() bool { return s.rec.Pod(pod.UID).Leaving() })
	states := s.rec.PodStates(pod.UID)
	return states[slices.IndexFunc(states, (*recorder.Pod).Leaving)]
}

// notReady waits until a pod is marked as not ready. A pod that is deleted earlier is not marked any more.
func (s *env) notReady(pod *corev1.Pod) {
	s.Helper()
	s.until(pod.Name+" is not ready", func() bool {
		p := s.rec.Pod(pod.UID)
		return p.Condition(corev1.PodReady).Status == corev1.ConditionFalse || p.Leaving()
	})
}

// byTaints checks that the pods of a silent node are evicted after their toleration. Pods
// within their toleration when the node returns stay.
func byTaints(s *env) {
	s.controllers(2)
	stopped, stable := s.node("silent"), s.node("rock")
	quick, slow, lasting := s.run(stopped, hollow.Pod("quick", 2)), s.run(stopped, hollow.Pod("slow", 5)), s.run(stopped, hollow.Pod("lasting", hollow.Default))
	bystander := s.run(stable, hollow.Pod("bystander", 0))
	s.until("the node may be used", func() bool { return s.rec.Node("silent").Tainted(corev1.TaintEffectNoSchedule) == "" })

	last := stopped.Stop()
	s.unknown(stopped, last)
	added, written := s.tainted(stopped, corev1.TaintNodeUnreachable)
	s.notBefore("by the taint, it was added", added, last.Sent.Add(grace).Truncate(time.Second)) // the API has whole seconds
	s.notBefore("the taint was written", written, added)
	if keys := s.rec.Node("silent").Tainted(corev1.TaintEffectNoSchedule); keys != corev1.TaintNodeUnreachable {
		s.Errorf("tainted NoSchedule: %s", keys)
	}
	for _, pod := range []*corev1.Pod{quick, slow, lasting} {
		s.notReady(pod)
	}
	s.until("an event", func() bool {
		return s.has(quick, "NodeNotReady", "Node is not ready") && len(s.rec.Events(stopped.UID, "NodeNotReady")) == 1
	})
	s.evicted(quick, added.Add(2*time.Second))
	s.disrupted(quick)

	if s.rec.Node("silent").Tainted(corev1.TaintEffectNoExecute) == "" {
		s.Error("the taint was removed before the node returned")
	}
	s.must(stopped.Resume(s.Context()))
	s.until("it is not tainted", func() bool {
		n := s.rec.Node("silent")
		return n.Tainted(corev1.TaintEffectNoExecute) == "" && n.Tainted(corev1.TaintEffectNoSchedule) == ""
	})
	spared := []*corev1.Pod{lasting}
	if due := added.Add(5 * time.Second); time.Now().Before(due) {
		spared = append(spared, slow)
	} else if deletes := s.deleted(slow); len(deletes) > 0 { // the node returned too late for it
		s.notBefore("pod slow is deleted", deletes[0].At, due)
	}
	for _, pod := range spared {
		s.until("the eviction is called off", func() bool {
			return s.has(pod, "TaintManagerEviction", "Cancelling deletion of Pod default/"+pod.Name)
		})
	}
	pass(s.Context(), time.Until(written.Add(5*time.Second+slack)))
	if s.untouched(stable) {
		spared = append(spared, bystander)
	}
	for _, pod := range spared {
		if p := s.rec.Pod(pod.UID); p.Leaving() || len(s.deleted(pod)) > 0 {
			s.Errorf("pod %s was deleted", pod.Name)
		}
	}
	if n := len(s.deleted(quick)); n != 1 {
		s.Errorf("pod quick was deleted %d times", n)
	}
}

// byItsOwnReport checks that a node that reports Ready False is tainted at once. Its kubelet
// ends the pods and writes their readiness. If the node then falls silent, the taint is
// replaced by the other one, and its pods are marked.
func byItsOwnReport(s *env) {
	s.controllers(1)
	ill, well := s.node("ill"), s.node("well")
	pod, later, lasting := s.run(ill, hollow.Pod("first", 1)), s.run(ill, hollow.Pod("later", 8)), s.run(ill, hollow.Pod("lasting", hollow.Default))
	since := time.Now()
	s.must(ill.Report(s.Context(), corev1.ConditionFalse))
	added, written := s.tainted(ill, corev1.TaintNodeNotReady)
	s.notBefore("it is tainted", written, since)
	s.evicted(pod, written.Add(time.Second))
	s.until("its kubelet ends it", func() bool { return s.rec.Pod(pod.UID).Gone })
	if c := s.rec.Pod(lasting.UID).Condition(corev1.PodReady); c.Status != corev1.ConditionTrue {
		s.Errorf("a live kubelet writes the readiness of its pods, but pod lasting is %+v", c)
	}

	last := ill.Stop()
	s.unknown(ill, last)
	for _, pod := range []*corev1.Pod{later, lasting} {
		s.notReady(pod)
	}
	swapped, _ := s.tainted(ill, corev1.TaintNodeUnreachable)
	s.until("one taint replaces the other", func() bool {
		return s.rec.Node("ill").Tainted(corev1.TaintEffectNoExecute) == corev1.TaintNodeUnreachable
	})
	if !swapped.Equal(added) {
		s.Errorf("tainted not-ready at %v, unreachable at %v: pods tolerate one trouble", added, swapped)
	}
	s.evicted(later, written.Add(8*time.Second))
	s.untouched(well)
}

// byTimeout checks the mode without taints: a silent node's pods are deleted after a timeout,
// except those of DaemonSets.
func byTimeout(s *env) {
	const timeout = 6 * time.Second
	s.controllers(1, "--enable-taint-manager=false", "--pod-eviction-timeout="+timeout.String())
	stopped, found := s.node("lost"), s.node("found")
	controls := true
	daemon := hollow.Pod("daemon", hollow.Default)
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &controls}}
	web, daemon := s.run(stopped, hollow.Pod("web", 0)), s.run(stopped, daemon)
	last := stopped.Stop()
	s.unknown(stopped, last)
	s.evicted(web, last.Sent.Add(timeout))
	if p := s.atDeletion(web); p.Status.Reason != "NodeLost" || p.Status.Message == "" {
		s.Errorf("pod web: reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	s.until("events", func() bool {
		return len(s.rec.Events(stopped.UID, "DeletingAllPods")) == 1 &&
			s.has(web, "NodeControllerEviction", "Marking for deletion Pod web from Node lost")
	})
	s.notReady(daemon)
	pass(s.Context(), slack)
	if s.rec.Pod(daemon.UID).Leaving() {
		s.Error("the pod of a DaemonSet was deleted")
	}
	if keys := s.rec.Node("lost").Tainted(corev1.TaintEffectNoExecute); keys != "" {
		s.Errorf("tainted %s", keys)
	}
	s.untouched(found)
}

// observed checks that a controller in mode observe decides as usual, and writes only the
// leader's lease.
func observed(s *env) {
	watcher := s.controllers(1, "--mode=observe", "--evicted-pod-ttl=1s")[0]
	stopped, stable := s.node("seen"), s.node("rock")
	pod := s.run(stopped, hollow.Pod("seen", 1))
	s.run(stable, hollow.Pod("kept", 1))
	s.fail(s.run(stopped, hollow.Pod("left", 1)), corev1.ConditionTrue)
	stopped.Stop()
	before := s.versions(stopped, pod)
	for _, decision := range []string{"mark-unknown", "taint", "mark-not-ready", "evict", "delete-evicted-pod"} {
		s.poll("it reports "+decision, func() bool {
			return watcher.decided(func(l *logLine) bool {
				return l.Decision == decision && l.DryRun && (l.Node == "seen" || l.Pod == "default/seen")
			})
		})
	}
	alive := len(silences(stable.Beats(), grace, time.Time{})) == 0
	if watcher.decided(func(l *logLine) bool { return l.Decision == "evict" && l.Pod == "default/kept" && alive || !l.DryRun }) {
		s.Error("it decided about a live node, or without a dry run")
	}
	for _, w := range s.writes((*recorder.Write).Changes) {
		if w.Resource != "leases" || w.Namespace != namespace || w.Name != account {
			s.Errorf("the observing controller wrote %s", w)
		}
	}
	if after := s.versions(stopped, pod); after != before {
		s.Errorf("versions of the node and its pod: %v, %v", before, after)
	}
}

// versions returns the resource versions of a node and a pod, which change with every write.
func (s *env) versions(n *hollow.Node, p *corev1.Pod) (versions [2]string) {
	s.Helper()
	node, err := s.api.CoreV1().Nodes().Get(s.Context(), n.Name, metav1.GetOptions{})
	s.must(err)
	pod, err := s.api.CoreV1().Pods(p.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
	s.must(err)
	return [2]string{node.ResourceVersion, pod.ResourceVersion}
}
