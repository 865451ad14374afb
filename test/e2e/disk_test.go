package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// disky is the threshold of all tests of disks; memory has none.
const disky = "--eviction-hard=nodefs.available<150Mi,imagefs.available<150Mi"

// layer returns the root of a pod's container as its processes see it. Files there belong to
// its writable layer.
func (s *env) layer(p *cluster.Pod, container string) string {
	s.t.Helper()
	pids, err := p.PIDs()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pid := range pids {
		member, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(member), p.Containers[container]) {
			return fmt.Sprintf("/proc/%d/root", pid)
		}
	}
	s.t.Fatalf("no process of container %s of pod %s among %v", container, p.Object.Name, pids)
	return ""
}

// write writes a file of the given size into a directory.
func (s *env) write(dir string, bytes int64) {
	s.t.Helper()
	s.must(cluster.WriteFile(filepath.Join(dir, "written"), bytes))
}

// fillUntil writes a file into a directory until the given number of bytes is free on the node's disk. It
// returns its size.
func (s *env) fillUntil(left int64, dir string) (bytes int64) {
	s.t.Helper()
	free, _, err := s.Node.Free()
	s.must(err)
	s.write(dir, free-left)
	return free - left
}

// vacate removes that file.
func (s *env) vacate(dir string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(dir, "written")); err != nil {
		s.t.Fatal(err)
	}
}

// litterUntil creates empty files in a directory until the given number of inodes is free on the node's disk. A pod
// that is evicted before the last file has no directory any more.
func (s *env) litterUntil(left int64, dir string) {
	s.t.Helper()
	_, free, err := s.Node.Free()
	s.must(err)
	s.litter(dir, free-left)
}

// litter creates empty files in a directory, until the directory is removed.
func (s *env) litter(dir string, files int64) {
	s.t.Helper()
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("litter-%d", i)))
		if err != nil {
			if _, gone := os.Stat(dir); i > 0 && errors.Is(gone, fs.ErrNotExist) {
				return
			}
			s.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// writer is a pod with an emptyDir "data".
func writer(name string) *corev1.Pod {
	pod := cluster.Hog(name)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/volume"}}
	return pod
}

// Directories of a pod on disks.
var (
	inLayer    = func(s *env, p *cluster.Pod) string { return s.layer(p, "main") }
	inEmptyDir = func(_ *env, p *cluster.Pod) string { return p.EmptyDir("data") }
	inLogs     = func(_ *env, p *cluster.Pod) string { return filepath.Join(p.Logs, "main") }
)

// runtimeHas lists the containers of a pod in the runtime.
func (s *env) runtimeHas(p *cluster.Pod) []*runtimeapi.Container {
	s.t.Helper()
	list, err := s.Node.Runtime.ListContainers(s.t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{PodSandboxId: p.Sandbox},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Containers
}

func TestEvict_ForDiskPressure(t *testing.T) {
	t.Parallel()
	for _, layout := range []struct {
		name string
		node cluster.NodeOptions
		fs   map[string]string // the exhausted filesystem, by the place of the hog's files
	}{
		{"single filesystem", cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 450 * mib}},
			map[string]string{"layer": "nodefs", "emptyDir": "nodefs"}},
		{"separate image filesystem", cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 450 * mib}, ImageFilesystem: cluster.Filesystem{Size: 450 * mib}},
			map[string]string{"layer": "imagefs", "logs": "nodefs"}},
	} {
		t.Run(layout.name, func(t *testing.T) {
			s := newEnv(t, withoutKubelet(layout.node))
			for where, place := range map[string]func(*env, *cluster.Pod) string{"layer": inLayer, "emptyDir": inEmptyDir, "logs": inLogs} {
				if fs := layout.fs[where]; fs != "" {
					s.scenario(where, func(s *env) { s.diskHogGoes(place, fs, where == "layer") })
				}
			}
		})
	}
}

// diskHogGoes runs two pods that write at the same place, one of them too much.
func (s *env) diskHogGoes(place func(*env, *cluster.Pod) string, fs string, givenBack bool) {
	calm, greedy := s.add(writer("calm")), s.add(writer("greedy"))
	s.write(place(s, calm), 20*mib)
	a := s.start(disky)
	s.knows(calm, greedy)
	s.write(place(s, greedy), 270*mib)
	d := s.evicts(a, greedy, "ephemeral-storage")
	if d.Signal != fs+".available" {
		s.t.Errorf("decision: %+v", d)
	}
	if givenBack {
		s.until("the layers of the evicted pod are removed", func() bool { return len(s.runtimeHas(greedy)) == 0 })
	} else {
		s.vacate(place(s, greedy)) // volumes and logs are removed by the kubelet
	}
	if d := s.await(a, agent.ReclaimDone); d.Reason != "recovered" {
		s.t.Errorf("decision: %+v", d)
	}
	s.only(greedy)
	s.running(calm)
}

func TestEvict_ForInodePressure(t *testing.T) {
	t.Parallel()
	const inodes = 8000
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 450 * mib, Inodes: inodes}}))
	calm, greedy := s.add(writer("calm")), s.add(writer("greedy"))
	s.litter(inEmptyDir(s, calm), 500)
	a := s.start("--eviction-hard=nodefs.inodesFree<25%,imagefs.inodesFree<25%")
	s.knows(calm, greedy)
	s.litterUntil(inodes*24/100, inLayer(s, greedy)) // the threshold is met by the last files
	d := s.evicts(a, greedy, "inodes")
	if d.Signal != "nodefs.inodesFree" {
		t.Errorf("decision: %+v", d)
	}
	if d := s.await(a, agent.ReclaimDone); d.Reason != "recovered" {
		t.Errorf("decision: %+v", d)
	}
	s.only(greedy)
	s.running(calm)
}

// TestGC_PrecedesEvictions checks that garbage is collected first, and that no pod is evicted if this
// suffices.
func TestGC_PrecedesEvictions(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 450 * mib}}))
	s.scenario("dead containers", func(s *env) {
		calm, done := s.add(writer("calm")), s.add(writer("done"))
		s.write(inLayer(s, done), 200*mib)
		s.finish(done)
		s.write(inLayer(s, calm), 120*mib)
		s.relieved(s.start(disky)) // it discovers garbage with a delay
		if left := s.runtimeHas(done); len(left) > 0 {
			s.t.Errorf("dead containers were not removed: %v", left)
		}
		s.running(calm)
	})
	s.scenario("unused images", func(s *env) {
		calm := s.add(writer("calm"))
		images, err := s.Node.MakeImages(s.t.Context(), "unused", 3, 40*mib) // twice that on disk
		s.must(err)
		a := s.start(disky, "--minimum-image-ttl-duration=0s")
		s.knows(calm)
		s.write(inLayer(s, calm), 100*mib)
		d := s.relieved(a)
		if left := s.images("unused"); len(left) == len(images) {
			s.t.Errorf("no image was removed, after %+v", d)
		}
		s.running(calm)
	})
}

// relieved waits until space is freed, and checks that no pod was evicted for it.
func (s *env) relieved(a *trial.Agent) *agent.Decision {
	s.t.Helper()
	d := s.await(a, agent.CollectingGarbage, agent.Evicted, agent.Failed)
	if d.Decision != agent.CollectingGarbage || !slices.Contains(d.Conditions, "DiskPressure") {
		s.t.Fatalf("decision: %+v", d)
	}
	d = s.await(a, agent.ConditionsChanged, agent.Evicted, agent.Failed, agent.CollectingGarbage) // after the transition period
	if d.Decision != agent.ConditionsChanged || len(d.Conditions) > 0 {
		s.t.Errorf("decision: %+v", d)
	}
	s.quiet(a)
	s.only()
	return d
}

// images returns the names of the runtime's images with a prefix.
func (s *env) images(prefix string) (names []string) {
	s.t.Helper()
	list, err := s.Node.Images.ListImages(s.t.Context(), &runtimeapi.ListImagesRequest{})
	s.must(err)
	for _, image := range list.Images {
		for _, tag := range image.RepoTags {
			if strings.HasPrefix(tag, "plimsoll.test/"+prefix) {
				names = append(names, tag)
			}
		}
	}
	return names
}

// finish ends a pod and reports its end as a kubelet would.
func (s *env) finish(p *cluster.Pod) {
	s.t.Helper()
	s.order(p, "exit 0")
	s.until("the runtime reports the end of the container", func() bool {
		for _, k := range s.runtimeHas(p) {
			if k.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				return false
			}
		}
		return true
	})
	_, err := s.API.CoreV1().Pods(p.Object.Namespace).Patch(s.t.Context(), p.Object.Name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	s.must(err)
}
