package client

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
)

func configMap(name, all string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"all": all}}
}

func TestWatchConfigMap_FollowsChanges(t *testing.T) {
	client := fake.NewClientset(configMap("settings", "armed"), configMap("other", "disarmed"))
	c := &Connection{node: "n1", log: slog.New(slog.DiscardHandler), watching: apitest.From(client), client: apitest.From(client), urgent: apitest.From(client)}
	changes := make(chan struct{}, 100)
	m := WatchConfigMap(t.Context(), c, "ns", "settings", func() { changes <- struct{}{} })
	<-changes
	if !m.Synced() || m.Data()["all"] != "armed" || m.Err() != nil {
		t.Fatalf("%v, synced %v, %v", m.Data(), m.Synced(), m.Err())
	}
	if _, err := client.CoreV1().ConfigMaps("ns").Update(t.Context(), configMap("settings", "disarmed"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for m.Data()["all"] != "disarmed" {
		<-changes
	}
	if err := client.CoreV1().ConfigMaps("ns").Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for m.Data() != nil {
		<-changes
	}
}

func TestConfigMapStore_IgnoresOtherConfigMaps(t *testing.T) {
	changes := 0
	s := configMapStore{&ConfigMap{name: "settings", changed: func() { changes++ }}}
	if err := s.Replace([]any{configMap("other", "armed"), configMap("settings", "disarmed")}, "1"); err != nil || s.Data()["all"] != "disarmed" || changes != 1 {
		t.Errorf("got %v, %v, %d changes", s.Data(), err, changes)
	}
	if s.Update(configMap("other", "armed")) != nil || s.Delete(configMap("other", "armed")) != nil || s.Resync() != nil || s.Data()["all"] != "disarmed" || changes != 1 {
		t.Errorf("another ConfigMap had an effect: %v, %d changes", s.Data(), changes)
	}
	for _, err := range []error{s.Add("x"), s.Replace([]any{"x"}, "2")} {
		if err == nil || s.Data()["all"] != "disarmed" {
			t.Errorf("%v, %v", err, s.Data())
		}
	}
	if err := s.Replace(nil, "3"); err != nil || s.Data() != nil || !s.Synced() {
		t.Errorf("missing ConfigMap: %v, %v", s.Data(), err)
	}
}
