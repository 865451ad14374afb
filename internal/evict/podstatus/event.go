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

// component is the reporting component of events.
const component = "plimsoll"

// maxName is the API's limit of an object's name in bytes; hashDigits is the length of our suffix.
const (
	maxName    = 253
	hashDigits = 16
)

// event returns the event of an eviction. Apart from the reporter, and the explanation at the end of its message, it
// equals the kubelet's.
func event(n *Notice, node string) *corev1.Event {
	at := metav1.NewTime(n.Decided)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: eventName(n), Annotations: n.Annotations},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: n.Namespace, Name: n.Name, UID: types.UID(n.UID),
		},
		Type:                corev1.EventTypeWarning,
		Reason:              ReasonEvicted,
		Message:             eventMessage(n),
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
		Source:              corev1.EventSource{Component: component, Host: node},
		ReportingController: component,
		ReportingInstance:   node,
	}
}

// eventMessage returns the message of the status and the explanation. All sentences of the former end in a space.
func eventMessage(n *Notice) string {
	if n.Explanation == "" {
		return n.Message
	}
	return strings.TrimRight(n.Message, " ") + " " + n.Explanation
}

// eventName depends only on the pod and the time of the decision: creating the event again fails
// because it exists. The end of a very long pod name is cut off; the hash distinguishes pods.
func eventName(n *Notice) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(n.UID), uint64(n.Decided.UnixNano())))
	name := n.Name
	if room := maxName - 1 - hashDigits; len(name) > room {
		name = strings.TrimRight(name[:room], "-.")
	}
	return name + "." + hex.EncodeToString(sum[:hashDigits/2])
}
