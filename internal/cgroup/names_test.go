package cgroup

import (
	"path"
	"strings"
	"testing"
)

const someUID = "0b6d5b4e-9c1f-4c55-8a35-1f0e7f2a9d11"

var someUIDInSlice = strings.ReplaceAll(someUID, "-", "_")

func TestParsePodDir_AcceptsNamesOfBothDrivers(t *testing.T) {
	for base, want := range map[string]string{
		"pod" + someUID:                                       someUID,
		"pod6f8f1d0c2b7e4a5d9c3e8b7a6f5d4c3b":                 "6f8f1d0c2b7e4a5d9c3e8b7a6f5d4c3b",
		"podleaky":                                            "leaky",
		"kubepods-pod" + someUIDInSlice + ".slice":            someUID,
		"kubepods-burstable-pod" + someUIDInSlice + ".slice":  someUID,
		"kubepods-besteffort-pod" + someUIDInSlice + ".slice": someUID,
		"kubelet-kubepods-burstable-podx_1.slice":             "x-1",
	} {
		if uid, ok := parsePodDir(base); !ok || uid != want {
			t.Errorf("parsePodDir(%q) = %q, %t, want %q", base, uid, ok, want)
		}
	}
	for _, base := range []string{
		"", ".", "..", "/", "pod", "pod-", "pod-x", "podx-", "pod..", "podx/y", "pod x", "podx_y", "pod\x00",
		"kubepods", "burstable", "besteffort", "kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice",
		"kubepods-pod.slice", "kubepods-burstable-pod.slice", "kubepods-podx-y.slice", "kubepods-pod_x.slice",
		"podx.slice", "burstable-podx.slice", "kubepods-guaranteed-podx.slice", "xkubepods-podx.slice",
		"kubepods-podx", "kubepods-podx.scope", "cri-containerd-0123.scope", "user.slice", "init.scope",
		"machine-pod1.slice", "kubepods-podx.slice.slice", "pod" + strings.Repeat("a", 129),
	} {
		if uid, ok := parsePodDir(base); ok {
			t.Errorf("parsePodDir(%q) = %q, want no pod", base, uid)
		}
	}
}

func TestParsePodPath_AcceptsOnlyPodDirectories(t *testing.T) {
	slice := "kubepods-burstable-pod" + someUIDInSlice + ".slice"
	for _, p := range []string{
		"/kubepods/pod" + someUID,
		"kubepods/burstable/pod" + someUID,
		"/node/kubepods/besteffort/pod" + someUID,
		"/kubepods.slice/kubepods-pod" + someUIDInSlice + ".slice",
		"kubepods.slice/kubepods-burstable.slice/" + slice,
		"/node/kubepods.slice/kubepods-burstable.slice/" + slice,
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + someUIDInSlice + ".slice",
	} {
		if uid, ok := ParsePodPath(p); !ok || uid != someUID {
			t.Errorf("ParsePodPath(%q) = %q, %t, want %s", p, uid, ok, someUID)
		}
	}
	for _, p := range []string{
		"", "/", "/kubepods", "/kubepods/burstable", "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice",
		"/podx", "/node/podx", "/burstable/podx", "/node/burstable/podx", "/kubepods/other/podx", "/kubepods/podx/app",
		"/kubepods/burstable/burstable/podx", "/kubepods/podx/", "/kubepods/../podx", "/kubepods/burstable/../podx",
		"/" + slice, "/kubepods.slice/" + slice, "/kubepods-burstable.slice/" + slice, "/x.slice/kubepods-burstable.slice/" + slice,
		"/kubepods/" + slice, "/kubepods.slice/podx", "/kubepods.slice/kubepods-besteffort.slice/" + slice,
	} {
		if uid, ok := ParsePodPath(p); ok {
			t.Errorf("ParsePodPath(%q) = %q, want no pod", p, uid)
		}
	}
}

// TestPodAbove_ReturnsUppermostPod checks that cgroups of any name below a pod's belong to that
// pod.
func TestPodAbove_ReturnsUppermostPod(t *testing.T) {
	for place, want := range map[string][2]string{
		"/kubepods/podab/77/kubepods/podcd/x": {"ab", "/kubepods/podab"},
		"/k/kubepods/podab":                   {"ab", "/k/kubepods/podab"},
		"/podab/x":                            {},
		"/":                                   {},
		"":                                    {},
	} {
		if uid, pod := PodAbove(place); uid != want[0] || pod != want[1] {
			t.Errorf("PodAbove(%q) = %q, %q, want %q", place, uid, pod, want)
		}
	}
}

func TestWithin_ComparesWholePathElements(t *testing.T) {
	for paths, want := range map[[2]string]bool{
		{"/", "/a"}: true, {"", "/a"}: true, {"/a", "/a"}: true, {"/a/", "/a/b"}: true, {"/a", "/a/b/c"}: true,
		{"/a", "/ab"}: false, {"/a/b", "/a"}: false, {"/a", "/"}: false,
	} {
		if got := Within(paths[0], paths[1]); got != want {
			t.Errorf("Within(%q) = %t, want %t", paths, got, want)
		}
	}
}

func TestContainerName_RemovesRuntimePrefix(t *testing.T) {
	for base, want := range map[string]string{
		"app":                       "app",
		"f3c1d6f0a4b2":              "f3c1d6f0a4b2",
		"cri-containerd-f3c1.scope": "f3c1",
		"crio-9a7b.scope":           "9a7b",
		"crio-9a7b":                 "9a7b",
		"docker-registry":           "docker-registry", // the name of a container, not of a runtime's scope
		"docker-77.scope":           "77",
	} {
		if got := ContainerName(base); got != want {
			t.Errorf("ContainerName(%q) = %q, want %q", base, got, want)
		}
	}
}

func FuzzParsePodPath(f *testing.F) {
	for _, p := range []string{"/kubepods/podx", "kubepods/burstable/podx", "/kubepods.slice/kubepods-podx_1.slice", "/kubepods", "/a/kubepods-b/podx"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		uid, ok := ParsePodPath(p)
		if !ok {
			return
		}
		base := path.Base(p)
		switch {
		case !validUID(uid), strings.ContainsAny(uid, "/._"):
			t.Fatalf("ParsePodPath(%q) = %q", p, uid)
		case base == "kubepods", base == "burstable", base == "besteffort", strings.HasSuffix(base, "kubepods.slice"),
			strings.HasSuffix(base, "burstable.slice"), strings.HasSuffix(base, "besteffort.slice"):
			t.Fatalf("ParsePodPath(%q): not a pod's directory", p)
		case !strings.Contains(path.Dir(p), "kubepods"):
			t.Fatalf("ParsePodPath(%q): not below kubepods", p)
		}
	})
}
