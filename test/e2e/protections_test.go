package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// protection preserves reason and message of an evicted pod, besides the agent.
type protection struct {
	apply func(*env)
	check func(*env, *statusWatch, []*cluster.Pod, map[string]string)
}

var protectionOf = map[string]protection{
	"mutating": {func(s *env) { s.evictedStaysEvicted(); s.evictedKeepsReason() }, (*env).neverLost},
	// An API server without MutatingAdmissionPolicy: the agent restores the reason.
	"validating": {(*env).evictedStaysEvicted, (*env).reasonRestored},
	"none":       {func(*env) {}, (*env).conditionStays},
}

// protections returns those that a run tries, by POLICIES.
func protections(t *testing.T) []string {
	names := strings.Fields(os.Getenv("POLICIES"))
	if len(names) == 0 {
		return []string{"mutating"}
	}
	for _, name := range names {
		if _, known := protectionOf[name]; !known {
			t.Fatalf("POLICIES: unknown policy %s: use mutating, validating or none", name)
		}
	}
	return names
}

// watched returns the time for which each evicted pod is watched. A kubelet repeats a status
// every 10 s.
func watched() time.Duration {
	if os.Getenv("EVICTIONS") != "" {
		return 60 * time.Second
	}
	return 25 * time.Second
}

// neverLost checks that no status lacks its reason after the first one of an eviction.
func (s *env) neverLost(v *statusWatch, pods []*cluster.Pod, messages map[string]string) {
	s.t.Helper()
	s.reasonRestored(v, pods, messages)
	v.expectNoLoss()
}

// reasonRestored checks that finally every pod has reason and message, and that none runs
// again.
func (s *env) reasonRestored(v *statusWatch, pods []*cluster.Pod, messages map[string]string) {
	s.t.Helper()
	s.figures(v, pods)
	for _, p := range pods {
		got := s.get(p)
		evicted(s.t, got, messages[got.Name])
	}
	for _, p := range s.startedAgain(pods) {
		s.t.Errorf("pod %s was started again. Its containers: %+v\nThe kubelet's log:\n%s", p.Object.Name, s.get(p).Status.ContainerStatuses, s.Node.Kubelet.Lines(p.Object.Namespace+"/"+p.Object.Name+`"`))
	}
	s.settled(pods)
}

// conditionStays checks that finally every pod is Failed and has the agent's mark with the message.
func (s *env) conditionStays(v *statusWatch, pods []*cluster.Pod, messages map[string]string) {
	s.t.Helper()
	s.figures(v, pods)
	for _, p := range pods {
		got := s.get(p)
		marked := slices.ContainsFunc(got.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == podstatus.Evicted && c.Status == corev1.ConditionTrue && c.Message == messages[got.Name]
		})
		if got.Status.Phase != corev1.PodFailed || !marked {
			s.t.Errorf("pod %s: %+v", got.Name, got.Status)
		}
	}
}

func (s *env) figures(v *statusWatch, pods []*cluster.Pod) {
	s.t.Helper()
	complete := 0
	for _, p := range pods {
		if got := s.get(p).Status; got.Phase == corev1.PodFailed && got.Reason == "Evicted" && got.Message != "" {
			complete++
		}
	}
	lost, gaps := v.losses(), v.restorations()
	s.t.Logf("watched for %s each: %d of %d have reason and message in the end, %d lost them at some time (%d statuses); started again: %d",
		watched(), complete, len(pods), v.losers(), len(lost), len(s.startedAgain(pods)))
	for _, c := range s.restartsInStatus(pods) {
		s.t.Logf("a restart is in the status: state %+v, last state %+v", c.State, c.LastTerminationState.Terminated)
	}
	if n := len(gaps); n > 0 {
		s.t.Logf("%d losses were restored: after a median of %s, at worst %s", n, gaps[n/2].Round(time.Millisecond), gaps[n-1].Round(time.Millisecond))
	}
	for _, loss := range lost[:min(len(lost), 20)] {
		s.t.Log(loss)
	}
}

// statusWatch watches pods. It records each status after that of their eviction in which parts of the
// latter are missing.
type statusWatch struct {
	t     *testing.T
	ended chan struct{} // the watch has

	mu     sync.Mutex
	first  map[types.UID]corev1.PodStatus // at first
	latest time.Time                      // time of the last eviction
	lost   map[types.UID][]string
	begun  map[types.UID]time.Time // of a loss that lasts
	gaps   []time.Duration         // from a loss to the restoration
}

// watchPods starts a vigil over all pods of the node.
func (s *env) watchPods() *statusWatch {
	s.t.Helper()
	v := &statusWatch{t: s.t, ended: make(chan struct{}), first: map[types.UID]corev1.PodStatus{}, lost: map[types.UID][]string{}, begun: map[types.UID]time.Time{}}
	watch, err := s.API.CoreV1().Pods(metav1.NamespaceAll).Watch(s.t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + cluster.NodeName, TimeoutSeconds: new(int64(6 * 3600)),
	})
	s.must(err)
	s.t.Cleanup(watch.Stop)
	go func() {
		defer close(v.ended)
		for e := range watch.ResultChan() {
			if p, is := e.Object.(*corev1.Pod); is {
				v.record(p)
			}
		}
	}()
	return v
}

func (v *statusWatch) record(p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first, evicted := v.first[p.UID]
	now := &p.Status
	same := now.Phase == first.Phase && now.Reason == first.Reason && now.Message == first.Message
	switch begun, lost := v.begun[p.UID]; {
	case !evicted && now.Phase == corev1.PodFailed && now.Reason == "Evicted":
		v.first[p.UID], v.latest = *now, time.Now()
	case evicted && same && lost:
		v.gaps = append(v.gaps, time.Since(begun))
		delete(v.begun, p.UID)
	case evicted && !same:
		if !lost {
			v.begun[p.UID] = time.Now()
		}
		v.lost[p.UID] = append(v.lost[p.UID], fmt.Sprintf("pod %s at %s: phase %s, reason %q, message %q", p.Name, time.Now().Format("15:04:05.000"), now.Phase, now.Reason, now.Message))
	}
}

// window waits until the given time has passed since the last eviction.
func (v *statusWatch) window(long time.Duration) {
	v.t.Helper()
	v.mu.Lock()
	rest := time.Until(v.latest.Add(long))
	v.mu.Unlock()
	select {
	case <-time.After(rest):
	case <-v.ended:
		v.t.Fatal("the watch of the pods ended early")
	}
}

// expectNoLoss checks that no status lacks its reason after the first one of an eviction.
func (v *statusWatch) expectNoLoss() {
	v.t.Helper()
	for _, loss := range v.losses() {
		v.t.Errorf("a status that lacks reason or message: %s", loss)
	}
}

func (v *statusWatch) losses() (all []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, losses := range v.lost {
		all = append(all, losses...)
	}
	slices.Sort(all)
	return all
}

// restorations returns the durations of losses in ascending order.
func (v *statusWatch) restorations() []time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(slices.Values(v.gaps))
}

// losers returns the number of pods with losses.
func (v *statusWatch) losers() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.lost)
}

// evictedStaysEvicted applies the policy of that name and waits until it is enforced.
func (s *env) evictedStaysEvicted() {
	s.t.Helper()
	s.admission("evicted-stays-evicted.yaml", "the policy refuses phase Running of an evicted pod", func(probe func(string) (*corev1.Pod, error)) bool {
		_, err := probe(`{"phase":"Running","reason":""}`)
		return apierrors.IsForbidden(err)
	})
}

// evictedKeepsReason applies the policy of that name and waits until it is enforced.
func (s *env) evictedKeepsReason() {
	s.t.Helper()
	s.admission("evicted-keeps-reason.yaml", "the reason of an evicted pod can not be removed", func(probe func(string) (*corev1.Pod, error)) bool {
		got, err := probe(`{"phase":"Running","reason":null,"message":null}`)
		return err == nil && got.Status.Phase == corev1.PodFailed && got.Status.Reason == "Evicted" && got.Status.Message == "m"
	})
}

// admission applies a policy, and waits until it is enforced for a member of a kubelet's group
// that writes to an evicted pod.
func (s *env) admission(file, what string, enforced func(write func(string) (*corev1.Pod, error)) bool) {
	s.t.Helper()
	s.apply(file)
	pod := cluster.Hog("probe")
	pod.Spec.SchedulerName = "none"
	pods := s.API.CoreV1().Pods("default")
	_, err := pods.Create(s.t.Context(), pod, metav1.CreateOptions{})
	s.must(err)
	member, err := kubernetes.NewForConfig(s.As("probe", "system:masters", "system:nodes"))
	s.must(err)
	patch := func(by kubernetes.Interface, status string) (*corev1.Pod, error) {
		return by.CoreV1().Pods("default").Patch(s.t.Context(), "probe", types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	}
	s.until(what, func() bool {
		_, err := patch(s.API, `{"phase":"Failed","reason":"Evicted","message":"m","conditions":[{"type":"plimsoll.dev/Evicted","status":"True","message":"m","lastTransitionTime":"2026-07-01T12:00:00Z"}]}`)
		s.must(err)
		return enforced(func(status string) (*corev1.Pod, error) { return patch(member, status) })
	})
	s.must(pods.Delete(s.t.Context(), "probe", metav1.DeleteOptions{}))
}
