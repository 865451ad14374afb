package app

import (
	"encoding/json"
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
)

func TestSavable_LeavesRoomForAllOtherPods(t *testing.T) {
	var active []signals.Pod
	for i := range 500 {
		pod := signals.Pod{UID: fmt.Sprint("uid-", i), Name: fmt.Sprint("p", i)}
		parts := 10
		if i < 400 {
			parts = 250
		}
		for k := range parts {
			name := fmt.Sprintf("%063d", k)
			pod.Containers = append(pod.Containers, signals.Container{Name: name, ID: name})
			pod.Volumes = append(pod.Volumes, signals.Volume{Name: name, Local: true, Directory: "kubernetes.io~empty-dir/" + name})
		}
		active = append(active, pod)
	}
	saved := podsToSave(active)
	text, err := json.Marshal(saved)
	if err != nil || len(text) > 4<<20 {
		t.Errorf("%d bytes, %v: the state file is not read again beyond 8 MiB", len(text), err)
	}
	if len(saved) != 500 || len(saved[499].Volumes) != 10 || len(active[0].Volumes) != 250 {
		t.Errorf("%d pods are saved", len(saved))
	}
	many := make([]signals.Pod, 2*maxSavedParts)
	if len(podsToSave(many)) != maxSavedParts {
		t.Errorf("%d pods are saved", len(podsToSave(many)))
	}
}
