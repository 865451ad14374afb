package podstatus

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// component is who reports, in events.
const component = "plimsoll"

// Lengths of an object's name: the API's limit, and what is ours at its end.
const (
	maxName    = 253
	hashDigits = 16
)

// event is the event of an eviction, as the kubelet's but for the reporter.
func event(n *Notice, node string) *corev1.Event {
	at := metav1.NewTime(n.Decided)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: eventName(n), Annotations: n.Annotations},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: n.Namespace, Name: n.Name, UID: types.UID(n.UID),
		},
		Type:                corev1.EventTypeWarning,
		Reason:              ReasonEvicted,
		Message:             n.Message,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
		Source:              corev1.EventSource{Component: component, Host: node},
		ReportingController: component,
		ReportingInstance:   node,
	}
}

// eventName follows from the pod and the time of the decision alone: whoever
// creates the event again finds that it exists. Of a very long pod name the end
// is cut off; the hash tells pods apart.
func eventName(n *Notice) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(n.UID), uint64(n.Decided.UnixNano())))
	name := n.Name
	if room := maxName - 1 - hashDigits; len(name) > room {
		name = strings.TrimRight(name[:room], "-.")
	}
	return name + "." + hex.EncodeToString(sum[:hashDigits/2])
}
