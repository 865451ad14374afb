package cgroup

import (
	"path"
	"strings"
)

// The directories of a kubepods tree, as the kubelet's two drivers name them:
//
//	cgroupfs  kubepods/[burstable/|besteffort/]pod<UID>/<container>
//	systemd   kubepods.slice/[kubepods-burstable.slice/]kubepods-burstable-pod<UID>.slice/<runtime>-<container>.scope
//
// A slice below another carries its parent's name as a prefix, so a node that
// is itself a slice (kubelet.slice in kind) has kubelet-kubepods.slice. Dashes
// separate there; those of a UID are written as underscores.
const (
	kubepods  = "kubepods"
	podPrefix = "pod"
	slice     = ".slice"
	scope     = ".scope"
)

// qosClasses are the directories between kubepods and pods; pods of class
// Guaranteed lie in kubepods itself.
var qosClasses = [...]string{"", "burstable", "besteffort"}

// maxUID bounds a UID's length; Kubernetes' have 36 bytes, or 32 for static
// pods.
const maxUID = 128

// parsePodDir tells from the last element of a path whether it names a pod's
// directory, and whose. It never accepts kubepods, a QoS directory or a
// container's. Who acts on the answer uses [ParsePodPath], which looks at the
// elements above too.
func parsePodDir(base string) (uid string, ok bool) {
	if name, isSlice := strings.CutSuffix(base, slice); isSlice {
		parent, last, _ := lastCut(name, "-")
		if !isKubepodsName(parent) {
			return "", false
		}
		uid, ok = strings.CutPrefix(last, podPrefix)
		if strings.Contains(uid, "-") { // underscores only: dashes would make further slices
			return "", false
		}
		uid = strings.ReplaceAll(uid, "_", "-")
	} else {
		uid, ok = strings.CutPrefix(base, podPrefix)
	}
	return uid, ok && validUID(uid)
}

// ParsePodPath tells whether a path relative to a controller's mount is a pod's
// directory: one that [parsePodDir] accepts, right in kubepods or right in a QoS
// directory right in kubepods, all of the same naming.
func ParsePodPath(p string) (uid string, ok bool) {
	parent, base := path.Split(p)
	if p != path.Clean(p) {
		return "", false
	}
	if uid, ok = parsePodDir(base); !ok {
		return "", false
	}
	above := path.Base(path.Clean(parent))
	aboveThat := path.Base(path.Dir(path.Clean(parent)))
	if name, isSlice := strings.CutSuffix(base, slice); isSlice {
		mother, _, _ := lastCut(name, "-")
		return uid, above == mother+slice && isKubepodsPlace(above, aboveThat)
	}
	return uid, above == kubepods || isQOS(above) && aboveThat == kubepods
}

// PodAbove returns the UID and the directory of the pod that a cgroup is in; empty if it
// is in none. The uppermost counts: a pod can make cgroups of any name below its own.
func PodAbove(place string) (uid, pod string) {
	for place = clean(place); place != "/"; place = path.Dir(place) {
		if id, is := ParsePodPath(place); is {
			uid, pod = id, place
		}
	}
	return uid, pod
}

// Within reports whether a cgroup is another one or below it.
func Within(above, below string) bool {
	above, below = clean(above), clean(below)
	return above == "/" || below == above || strings.HasPrefix(below, above+"/")
}

// isKubepodsPlace reports whether a slice is kubepods', or a QoS class's right
// below its kubepods.
func isKubepodsPlace(above, aboveThat string) bool {
	name := strings.TrimSuffix(above, slice)
	mother, last, _ := lastCut(name, "-")
	if !isQOS(last) {
		return true
	}
	return aboveThat == mother+slice
}

// isKubepodsName reports whether a slice's name without its suffix is that of
// kubepods or of one of its QoS classes, perhaps below other slices.
func isKubepodsName(name string) bool {
	if rest, last, ok := lastCut(name, "-"); ok && isQOS(last) {
		name = rest
	}
	_, last, ok := lastCut(name, "-")
	return name == kubepods || ok && last == kubepods
}

func isQOS(name string) bool { return name == qosClasses[1] || name == qosClasses[2] }

// validUID reports whether a UID can be a part of a directory's name: letters,
// digits and dashes, neither first nor last a dash.
func validUID(uid string) bool {
	if uid == "" || len(uid) > maxUID || uid[0] == '-' || uid[len(uid)-1] == '-' {
		return false
	}
	for _, c := range []byte(uid) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// lastCut cuts s around the last separator; without one, after is all of s.
func lastCut(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// runtimes are the prefixes of container scopes.
var runtimes = [...]string{"cri-containerd-", "crio-", "docker-", "libpod-"}

// ContainerName is a container directory's name without what the runtime puts
// around it: the container's id, or what a program without a runtime named it.
func ContainerName(base string) string {
	name, isScope := strings.CutSuffix(base, scope)
	for _, prefix := range runtimes {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (isScope || prefix == "crio-") {
			return rest
		}
	}
	return name
}
