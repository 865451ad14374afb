package client

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
)

func words(name, all string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"all": all}}
}

func TestOneConfigMapIsFollowed(t *testing.T) {
	client := fake.NewClientset(words("words", "armed"), words("other", "disarmed"))
	c := &Connection{node: "n1", log: slog.New(slog.DiscardHandler), watching: apitest.From(client), client: apitest.From(client), urgent: apitest.From(client)}
	told := make(chan struct{}, 100)
	m := WatchConfigMap(t.Context(), c, "ns", "words", func() { told <- struct{}{} })
	<-told
	if !m.Synced() || m.Data()["all"] != "armed" || m.Err() != nil {
		t.Fatalf("%v, synced %v, %v", m.Data(), m.Synced(), m.Err())
	}
	if _, err := client.CoreV1().ConfigMaps("ns").Update(t.Context(), words("words", "disarmed"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for m.Data()["all"] != "disarmed" {
		<-told
	}
	if err := client.CoreV1().ConfigMaps("ns").Delete(t.Context(), "words", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for m.Data() != nil {
		<-told
	}
}

func TestNoOtherConfigMapIsMeant(t *testing.T) {
	told := 0
	s := configMapStore{&ConfigMap{name: "words", changed: func() { told++ }}}
	if err := s.Replace([]any{words("other", "armed"), words("words", "disarmed")}, "1"); err != nil || s.Data()["all"] != "disarmed" || told != 1 {
		t.Errorf("%v, %v, told %d times", s.Data(), err, told)
	}
	if s.Update(words("other", "armed")) != nil || s.Delete(words("other", "armed")) != nil || s.Resync() != nil || s.Data()["all"] != "disarmed" || told != 1 {
		t.Errorf("another one counts: %v, told %d times", s.Data(), told)
	}
	for _, err := range []error{s.Add("x"), s.Replace([]any{"x"}, "2")} {
		if err == nil || s.Data()["all"] != "disarmed" {
			t.Errorf("%v, %v", err, s.Data())
		}
	}
	if err := s.Replace(nil, "3"); err != nil || s.Data() != nil || !s.Synced() {
		t.Errorf("one that does not exist: %v, %v", s.Data(), err)
	}
}
