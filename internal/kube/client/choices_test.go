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
func TestWhatPodsSayOfTheirEvictionIsHeard(t *testing.T) {
	says := func(policy string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) { p.Annotations = map[string]string{agentpods.PolicyAnnotation: policy} })
	}
	s := newServer(t, false)
	s.set(says("never"))
	var told []string
	book := &logcapture.Book{}
	c, err := client.Connect(client.Options{Kubeconfig: s.kubeconfig(t, s.URL), NodeName: "N1", Log: book.Logger(),
		Choices: agentpods.NewChoices(nil, []string{signals.EveryNamespace}, func(problem error) { told = append(told, problem.Error()) })})
	if err != nil {
		t.Fatal(err)
	}
	p := client.WatchPods(t.Context(), c, []signals.Pod{{UID: "old", Protection: signals.Namespaced}}, nil)
	if now := p.Active(); len(now) == 1 && now[0].UID == "old" && now[0].Protection != signals.Unprotected {
		t.Errorf("a pod known before is protected by a choice that nobody makes any more: %+v", now[0])
	}
	is := func(holds func(*signals.Pod) bool) func() bool {
		return func() bool { now := p.Active(); return p.Synced() && len(now) == 1 && holds(&now[0]) }
	}
	eventually(t, "it never goes", is(func(p *signals.Pod) bool { return p.Protection == signals.OptedOut }))
	s.set(says("last"))
	eventually(t, "it goes last", is(func(p *signals.Pod) bool { return p.Protection == signals.Unprotected && p.Last }))
	s.set(says("maybe"))
	eventually(t, "it goes as others do", is(func(p *signals.Pod) bool { return p.Protection == signals.Unprotected && !p.Last }))
	s.set(says("last"))
	eventually(t, "it goes last again", is(func(p *signals.Pod) bool { return p.Last }))
	if len(told) != 1 {
		t.Errorf("told %q", told)
	}
}
