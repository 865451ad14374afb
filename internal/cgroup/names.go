package cgroup

import (
	"path"
	"strings"
)

// The directories of a kubepods tree, as named by the kubelet's two drivers:
//
//	cgroupfs  kubepods/[burstable/|besteffort/]pod<UID>/<container>
//	systemd   kubepods.slice/[kubepods-burstable.slice/]kubepods-burstable-pod<UID>.slice/<runtime>-<container>.scope
//
// A nested slice has its parent's name as a prefix, so a node in a slice (kubelet.slice in
// kind) has kubelet-kubepods.slice. Dashes separate the levels; the dashes of a UID become
// underscores.
const (
	kubepods  = "kubepods"
	podPrefix = "pod"
	slice     = ".slice"
	scope     = ".scope"
)

// qosClasses are the directories between kubepods and pods. Pods of class Guaranteed are in
// kubepods itself.
var qosClasses = [...]string{"", "burstable", "besteffort"}

// maxUID is the maximum length of a UID in bytes. Those of Kubernetes have 36, or 32 for static
// pods.
const maxUID = 128

// parsePodDir returns the UID in the last element of a path if it names a pod's directory. It
// never accepts kubepods, a QoS directory or a container's. Before acting on a cgroup use
// [ParsePodPath], which also checks the parent elements.
func parsePodDir(base string) (uid string, ok bool) {
	if name, isSlice := strings.CutSuffix(base, slice); isSlice {
		parent, last, _ := lastCut(name, "-")
		if !isKubepodsName(parent) {
			return "", false
		}
		uid, ok = strings.CutPrefix(last, podPrefix)
		if strings.Contains(uid, "-") { // underscores only: dashes would be further slices
			return "", false
		}
		uid = strings.ReplaceAll(uid, "_", "-")
	} else {
		uid, ok = strings.CutPrefix(base, podPrefix)
	}
	return uid, ok && validUID(uid)
}

// ParsePodPath reports whether a path relative to a controller's mount is a pod's directory,
// and returns the pod's UID. [parsePodDir] must accept the last element. Its parent must be
// kubepods, or a QoS directory directly below kubepods, all named by the same driver.
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
		parentName, _, _ := lastCut(name, "-")
		return uid, above == parentName+slice && isKubepodsPlace(above, aboveThat)
	}
	return uid, above == kubepods || isQOS(above) && aboveThat == kubepods
}

// PodAbove returns the UID and the directory of the pod that contains a cgroup; empty if there
// is none. The uppermost match counts, because a pod can create cgroups of any name below its
// own.
func PodAbove(place string) (uid, pod string) {
	for place = clean(place); place != "/"; place = path.Dir(place) {
		if id, is := ParsePodPath(place); is {
			uid, pod = id, place
		}
	}
	return uid, pod
}

// Within reports whether below equals above or is a descendant of it.
func Within(above, below string) bool {
	above, below = clean(above), clean(below)
	return above == "/" || below == above || strings.HasPrefix(below, above+"/")
}

// isKubepodsPlace reports whether a slice is kubepods', or a QoS class's directly below its
// kubepods.
func isKubepodsPlace(above, aboveThat string) bool {
	name := strings.TrimSuffix(above, slice)
	parentName, last, _ := lastCut(name, "-")
	if !isQOS(last) {
		return true
	}
	return aboveThat == parentName+slice
}

// isKubepodsName reports whether a slice's name without its suffix is that of kubepods or of
// one of its QoS classes, possibly below other slices.
func isKubepodsName(name string) bool {
	if rest, last, ok := lastCut(name, "-"); ok && isQOS(last) {
		name = rest
	}
	_, last, ok := lastCut(name, "-")
	return name == kubepods || ok && last == kubepods
}

func isQOS(name string) bool { return name == qosClasses[1] || name == qosClasses[2] }

// validUID reports whether a UID can be a part of a directory's name: letters, digits and
// dashes, without a leading or trailing dash.
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

// lastCut splits s at the last separator; without one, after is all of s.
func lastCut(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// runtimes are the prefixes of container scopes.
var runtimes = [...]string{"cri-containerd-", "crio-", "docker-", "libpod-"}

// ContainerName returns a container directory's name without the runtime's prefix and suffix.
// It is the container's id, or its name if it was created without a runtime.
func ContainerName(base string) string {
	name, isScope := strings.CutSuffix(base, scope)
	for _, prefix := range runtimes {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (isScope || prefix == "crio-") {
			return rest
		}
	}
	return name
}
