package client_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// Annotations of a pod count from their arrival, also for a running pod. Invalid values are ignored
// and logged once.
func TestWatchPods_AppliesEvictionAnnotations(t *testing.T) {
	annotated := func(policy string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) { p.Annotations = map[string]string{agentpods.PolicyAnnotation: policy} })
	}
	s := newServer(t, false)
	s.set(annotated("never"))
	var problems []string
	log := &logcapture.Book{}
	c, err := client.Connect(client.Options{Kubeconfig: s.kubeconfig(t, s.URL), NodeName: "N1", Log: log.Logger(),
		Choices: agentpods.NewChoices(nil, []string{signals.EveryNamespace}, func(problem error) { problems = append(problems, problem.Error()) })})
	if err != nil {
		t.Fatal(err)
	}
	p := client.WatchPods(t.Context(), c, []signals.Pod{{UID: "old", Protection: signals.Namespaced}}, nil)
	if now := p.Active(); len(now) == 1 && now[0].UID == "old" && now[0].Protection != signals.Unprotected {
		t.Errorf("a known pod is protected by a choice that is not configured any more: %+v", now[0])
	}
	becomes := func(ok func(*signals.Pod) bool) func() bool {
		return func() bool { now := p.Active(); return p.Synced() && len(now) == 1 && ok(&now[0]) }
	}
	eventually(t, "the pod is opted out", becomes(func(p *signals.Pod) bool { return p.Protection == signals.OptedOut }))
	s.set(annotated("last"))
	eventually(t, "the pod is ranked last", becomes(func(p *signals.Pod) bool { return p.Protection == signals.Unprotected && p.Last }))
	s.set(annotated("maybe"))
	eventually(t, "the pod is ranked as others", becomes(func(p *signals.Pod) bool { return p.Protection == signals.Unprotected && !p.Last }))
	s.set(annotated("last"))
	eventually(t, "the pod is ranked last again", becomes(func(p *signals.Pod) bool { return p.Last }))
	if len(problems) != 1 {
		t.Errorf("got problems %q, want one", problems)
	}
}
