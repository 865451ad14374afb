package runtimepods_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/runtimepods"
)

func sandbox(uid, namespace, source string, attempt uint32, ready bool) cri.Sandbox {
	s := cri.Sandbox{ID: fmt.Sprintf("s-%s-%d", uid, attempt), UID: uid, Namespace: namespace, Name: "p-" + uid, Attempt: attempt, Ready: ready}
	if source != "" {
		s.Annotations = map[string]string{"kubernetes.io/config.source": source}
	}
	return s
}

func in(uid, id string, state cri.State) cri.Container {
	return cri.Container{ID: id, Name: "c", State: state, PodUID: uid, PodNamespace: "n", PodName: "p-" + uid}
}

func TestConvert_UnknownPods(t *testing.T) {
	found := runtimepods.Convert([]cri.Sandbox{
		sandbox("plain", "n", "api", 0, true),
		sandbox("static", "kube-system", "file", 0, true),
		sandbox("platform", "kube-system", "api", 0, true),
		sandbox("foreign", "n", "", 0, true),
		sandbox("ended", "n", "api", 0, false),
		sandbox("again", "n", "api", 1, false),
		sandbox("again", "n", "api", 2, true),
		sandbox("given-up", "n", "api", 3, false),
		sandbox("given-up", "n", "api", 2, true), // a stale entry: the newest counts
		sandbox("headless", "n", "http", 0, false),
		sandbox("../evil", "n", "api", 0, true),
		sandbox("", "", "", 0, true),
	}, []cri.Container{
		in("plain", "0b", cri.Running),
		in("plain", "0a", cri.Running),
		in("plain", "0c", cri.Exited),
		in("plain", "../x", cri.Running),
		in("ended", "0d", cri.Exited),
		in("headless", "0e", cri.Running),
		in("orphan", "0f", cri.Running),
		in("", "10", cri.Running),
	}, nil)
	var got []string
	for i := range found {
		p := &found[i]
		ids := ""
		for _, c := range p.Containers {
			ids += c.ID + " "
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s [%s] api=%v %s", p.Key(), p.Protection, p.FromAPI, ids)))
		if p.Priority != signals.CriticalPriority-1 {
			t.Errorf("%s has priority %d: an unknown priority ranks after all known ones", p.Key(), p.Priority)
		}
	}
	want := []string{
		"kube-system/p-platform [critical pod] api=true",
		"kube-system/p-static [static pod] api=false",
		"n/p-again [] api=true",
		"n/p-foreign [] api=false",
		"n/p-headless [static pod] api=false 0e",
		"n/p-orphan [static pod] api=false 0f",
		"n/p-plain [] api=true 0a 0b",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("pods:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
