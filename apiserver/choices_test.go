package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/apiserver"
	"plimsoll.dev/plimsoll/pods"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/test/logbook"
)

// What a pod says of its own eviction counts from when the server tells it, also
// of a pod that runs already; nonsense counts as nothing and is told once.
func TestWhatPodsSayOfTheirEvictionIsHeard(t *testing.T) {
	says := func(policy string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) { p.Annotations = map[string]string{pods.PolicyAnnotation: policy} })
	}
	s := newServer(t, false)
	s.set(says("never"))
	var told []string
	book := &logbook.Book{}
	c, err := apiserver.Connect(apiserver.Options{Kubeconfig: s.kubeconfig(t, s.URL), NodeName: "N1", Log: book.Logger(),
		Choices: pods.NewChoices(nil, []string{signal.EveryNamespace}, func(problem error) { told = append(told, problem.Error()) })})
	if err != nil {
		t.Fatal(err)
	}
	p := apiserver.WatchPods(t.Context(), c, []signal.Pod{{UID: "old", Protection: signal.Namespaced}}, nil)
	if now := p.Active(); len(now) == 1 && now[0].UID == "old" && now[0].Protection != signal.Unprotected {
		t.Errorf("a pod known before is protected by a choice that nobody makes any more: %+v", now[0])
	}
	is := func(holds func(*signal.Pod) bool) func() bool {
		return func() bool { now := p.Active(); return p.Synced() && len(now) == 1 && holds(&now[0]) }
	}
	eventually(t, "it never goes", is(func(p *signal.Pod) bool { return p.Protection == signal.OptedOut }))
	s.set(says("last"))
	eventually(t, "it goes last", is(func(p *signal.Pod) bool { return p.Protection == signal.Unprotected && p.Last }))
	s.set(says("maybe"))
	eventually(t, "it goes as others do", is(func(p *signal.Pod) bool { return p.Protection == signal.Unprotected && !p.Last }))
	s.set(says("last"))
	eventually(t, "it goes last again", is(func(p *signal.Pod) bool { return p.Last }))
	if len(told) != 1 {
		t.Errorf("told %q", told)
	}
}
