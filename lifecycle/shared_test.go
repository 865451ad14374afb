package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestShared_ReleasesLargeSets(t *testing.T) {
	var s shared
	for pod := range 20 {
		var of []corev1.Toleration
		for i := range 20_000 {
			of = append(of, corev1.Toleration{Key: fmt.Sprintf("%d-%d-some-key", pod, i), Operator: corev1.TolerationOpExists})
		}
		if set := s.tolerations(of); len(set) != maxTolerations || set[0].Key != of[0].Key {
			t.Errorf("got %d of 20000 tolerations, want %d", len(set), maxTolerations)
		}
		if long := strings.Repeat("x", 1<<20); s.text(long) != long {
			t.Error("a long text was changed")
		}
	}
	if len(s.sets) > 0 || len(s.texts) > 0 || cap(s.key) > 1<<20 {
		t.Errorf("%d sets, %d texts and %d bytes are left without pods", len(s.sets), len(s.texts), cap(s.key))
	}
	few := []corev1.Toleration{{Key: "a"}}
	if a, b := s.tolerations(few), s.tolerations(few); &a[0] != &b[0] {
		t.Error("a small set was not shared")
	}
}
