package slimpods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// Bounds of the decoded parts of one pod.
const (
	// maxContainers bounds each list of containers or of their statuses. Requests and limits of
	// further containers do not count. A container without its status has the requests of its spec.
	maxContainers = 1000
	// maxTolerations is the number of tolerations beyond which a pod tolerates every taint for
	// ever, as one toleration could express.
	maxTolerations = 1000
	// maxVolumes is one more than package agentpods converts separately. Of further volumes the
	// first of each kind is retained, which suffices for that package.
	maxVolumes = agentpods.MaxVolumes + 1
	// maxConditions bounds the conditions that Plimsoll reads. The first Ready and the first
	// DisruptionTarget are always retained.
	maxConditions = 100
)

// all is the rule of a retained field.
var all = &rule{}

// pod describes the fields of a pod that are read. The numbers are those of Kubernetes' messages.
var pod = &message{
	1: {inner: &metadata},
	2: {inner: &spec},
	3: {inner: &status},
}

var metadata = message{
	1: all, // name
	3: all, // namespace
	5: all, // uid
	6: all, // resourceVersion
	7: all, // generation
	8: all, // creationTimestamp
	9: all, // deletionTimestamp
	12: {class: key(agentpods.SourceAnnotation, agentpods.MirrorAnnotation, agentpods.PolicyAnnotation, agentpods.PriorityAnnotation,
		metav1.InitialEventsAnnotationKey)}, // annotations; the last one ends a list sent as events
	13: {class: controller, inner: &message{ // ownerReferences
		1: all, // kind
		4: all, // uid
		5: all, // apiVersion
		6: all, // controller
	}},
}

var spec = message{
	1:  {class: volumeKind, limit: maxVolumes, inner: &volume},
	2:  {class: alike, limit: maxContainers, inner: &container},
	4:  all,                                                     // terminationGracePeriodSeconds
	10: all,                                                     // nodeName
	11: all,                                                     // hostNetwork
	12: all,                                                     // hostPID
	13: all,                                                     // hostIPC
	20: {class: alike, limit: maxContainers, inner: &container}, // initContainers
	22: {class: alike, limit: maxTolerations + 1},               // tolerations
	25: all,                                                     // priority
	32: {class: measured},                                       // overhead
	40: {inner: &message{ // resources of the pod level
		1: {class: podLevel}, // limits
		2: {class: podLevel}, // requests
	}},
}

var volume = message{
	1: all, // name
	2: {inner: &message{ // volumeSource
		hostPath: {inner: &message{
			1: all, // path
		}},
		emptyDir: {inner: &message{
			1: all, // medium
			2: all, // sizeLimit
		}},
		gitRepo:   {inner: &message{}},
		configMap: {inner: &message{}},
	}},
}

var container = message{
	1: all, // name
	2: all, // image
	8: {inner: &message{ // resources
		1: {class: measured}, // limits
		2: {class: measured}, // requests
	}},
	15: {inner: &message{ // securityContext
		2: all, // privileged
	}},
	24: all, // restartPolicy
}

var status = message{
	1:  all, // phase
	2:  {class: key(string(corev1.PodReady), string(corev1.DisruptionTarget), "plimsoll.dev/"), limit: maxConditions},
	3:  all,                                                           // message
	4:  all,                                                           // reason
	8:  {class: alike, limit: maxContainers, inner: &containerStatus}, // containerStatuses
	10: {class: alike, limit: maxContainers, inner: &containerStatus}, // initContainerStatuses
	13: {class: alike, limit: maxContainers, inner: &containerStatus}, // ephemeralContainerStatuses
	19: {class: measured},                                             // allocatedResources
}

var containerStatus = message{
	1: all, // name
	2: {inner: &state},
	3: {inner: &state}, // lastState
	8: all,             // containerID
	// allocatedResources: the presence of any entry matters too.
	10: {class: key(string(corev1.ResourceMemory), "")},
	11: {inner: &message{ // resources
		2: {class: measured}, // requests
	}},
}

var state = message{
	2: {inner: &message{ // running
		1: all, // startedAt
	}},
	3: {inner: &message{ // terminated
		5: all, // startedAt
		7: all, // containerID
	}},
}

var (
	measured = key(string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage))
	// podLevel are the resources that, set at the pod level, replace those of the containers.
	podLevel = key(string(corev1.ResourceMemory), string(corev1.ResourceCPU), corev1.ResourceHugePagesPrefix)
)

// alike puts all parts into one class.
func alike([]byte) class { return every }

// key returns a function that puts a part into the class of its key, the first field of map entries
// and conditions. A key that ends in a slash or a hyphen is a prefix; the empty key matches all. A
// malformed part has no class: generated decoders read a map entry beyond its end, so its value
// depends on the following bytes.
func key(of ...string) func(part []byte) class {
	return func(part []byte) class {
		var found []byte
		for len(part) > 0 {
			f, content, ok := take(&part)
			if !ok || f.number <= 2 && f.wire != wireBytes {
				return 0
			}
			if f.number == 1 {
				found = content
			}
		}
		for i, k := range of {
			prefix := k == "" || strings.HasSuffix(k, "/") || strings.HasSuffix(k, "-")
			if string(found) == k || prefix && strings.HasPrefix(string(found), k) {
				return 1 << i
			}
		}
		return 0
	}
}

// controller is the class of an owner that controls the pod.
func controller(owner []byte) (c class) {
	for f, _, ok := take(&owner); ok; f, _, ok = take(&owner) {
		if f.number == 6 && f.wire == wireVarint {
			c = 0
			if f.value != 0 {
				c = every
			}
		}
	}
	return c
}

// Fields of a volume's source.
const (
	hostPath  = 1
	emptyDir  = 2
	gitRepo   = 5
	configMap = 19
)

// volumeKind is the class of a volume by its kind of measurement in package agentpods.
func volumeKind(volume []byte) class {
	const onHost, inMemory, empty, config, repo class = 1, 2, 4, 8, 16
	c := every
	for v, source, ok := take(&volume); ok; v, source, ok = take(&volume) {
		if v.number != 2 || v.wire != wireBytes {
			continue
		}
		for s, one, ok := take(&source); ok; s, one, ok = take(&source) {
			switch {
			case s.wire != wireBytes:
			case s.number == hostPath:
				c |= onHost
			case s.number == emptyDir && hasMedium(one):
				c |= inMemory
			case s.number == emptyDir:
				c |= empty
			case s.number == configMap:
				c |= config
			case s.number == gitRepo:
				c |= repo
			}
		}
	}
	switch { // of several sources, which no server accepts, the first one counts
	case c&empty != 0:
		c &^= config | repo
	case c&config != 0:
		c &^= repo
	}
	return c
}

// hasMedium reports whether an emptyDir is not on the node's disk.
func hasMedium(emptyDir []byte) (has bool) {
	for f, content, ok := take(&emptyDir); ok; f, content, ok = take(&emptyDir) {
		if f.number == 1 && f.wire == wireBytes {
			has = len(content) > 0
		}
	}
	return has
}
