package recording

import (
	"encoding/json"
	"reflect"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the pods of a recording. Users determine their number and size. A value with all of its new
// pods must fit into a segment, and a reader must have memory for the pods.
const (
	maxPods    = 1 << 17  // in a segment
	maxPodJSON = 64 << 10 // bytes of one pod
	// maxPodBytes bounds the pods of a segment that a reader decodes: they take up to forty times as much
	// memory. An encoder stays below. 500 ordinary pods have 1 MB.
	maxPodBytes = 4 << 20
	// chosenRoom is the room for the pods that a check has chosen, where others have none any more.
	chosenRoom = 64 << 10
	// maxShortJSON bounds a pod without its containers and volumes.
	maxShortJSON = 4 << 10
	// podShare is the inverse of the part of the room that is left which one pod may take. So a few large
	// ones leave enough for many small ones.
	podShare = 16
)

// MaxTracked is the maximum number of pods that a program follows from one segment of a recording to the next. A reader
// bounds the pods of a segment alone, and a recording has any number of segments.
const MaxTracked = 1 << 16

// declare appends the frame of a pod, unless the segment has it, or there is no room for it.
func (e *Encoder) declare(b []byte, p *signals.Pod) []byte {
	if p == nil {
		return b
	}
	d, found := e.pods[p.UID]
	if found && (d.pod == p || reflect.DeepEqual(d.pod, p)) {
		d.pod = p
	} else {
		stored, text := shortened(p, e.room)
		if stored == nil {
			return b
		}
		d = declared{number: e.next, pod: p, stored: stored, cut: len(stored.Containers) < len(p.Containers) || len(stored.Volumes) < len(p.Volumes)}
		e.next++
		from := len(b)
		o := output{b: begin(b, kindPod)}
		o.uvarint(d.number)
		o.b = append(o.b, text...)
		b, _ = seal(o.b, from)
		e.room -= len(b) - from
		e.podBytes += len(b) - from
	}
	e.pods[p.UID], e.frame[p] = d, d
	return b
}

// shortened returns the part of a pod that is stored, and its JSON. The paths of hostPaths do not decide,
// so that they are left out first. It returns nil if there is no room for the rest.
func shortened(p *signals.Pod, room int) (stored *signals.Pod, text []byte) {
	if room < 2*maxShortJSON {
		return nil, nil
	}
	pathless := *p
	pathless.HostPaths = nil
	for _, stored := range [...]*signals.Pod{p, &pathless} {
		if text, err := json.Marshal(stored); err == nil && len(text) <= min(maxPodJSON, room/podShare) {
			return stored, text
		}
	}
	short := pathless
	short.Containers, short.Volumes, short.Ephemeral = nil, nil, nil
	if text, err := json.Marshal(&short); err == nil && len(text) <= maxShortJSON {
		return &short, text
	}
	return nil, nil
}
