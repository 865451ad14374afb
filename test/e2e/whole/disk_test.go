package whole

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// writer is a pod with an emptyDir "data".
func writer(name string) *corev1.Pod {
	pod := cluster.Hog(name)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/volume"}}
	return pod
}

// inside returns the root of a pod's container as its processes see it. Files there belong to
// its writable layer; those below /volume to its emptyDir.
func (s *env) inside(p *cluster.Pod) string {
	s.Helper()
	var root string
	s.poll("a process of "+p.Object.Name, func() bool {
		pids, err := p.PIDs()
		s.must(err)
		for _, pid := range pids {
			member, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if err == nil && strings.Contains(string(member), p.Containers["main"]) {
				root = fmt.Sprintf("/proc/%d/root", pid)
			}
		}
		return root != ""
	})
	return root
}

// short is the free space of an exhausted disk: slightly above the kubelet's threshold. Garbage
// of earlier scenarios is less than the shortfall.
const short = 60 * mib

// write writes a file of the given size into a directory.
func (s *env) write(dir, name string, bytes int64) {
	s.Helper()
	s.must(cluster.WriteFile(filepath.Join(dir, name), bytes))
}

// fillUntil writes until the given number of bytes is free on the node's disk.
func (s *env) fillUntil(bytes int64, dir string) {
	s.Helper()
	free, _ := s.free()
	s.write(dir, "bulk", max(0, free-bytes))
}

// litter creates empty files in a directory until the given number of inodes is free.
func (s *env) litter(left int64, dir string) {
	s.Helper()
	_, free := s.free()
	for i := range free - left {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("litter-%d", i)))
		s.must(err)
		s.must(f.Close())
	}
}

func (s *env) inodeHog() {
	pods := s.pods(writer("calm"), writer("greedy"))
	calm, greedy := pods[0], pods[1]
	s.litter(nodeInodes*70/100, calm.EmptyDir("data"))
	s.litter(nodeInodes*15/100, greedy.EmptyDir("data"))
	s.awaitEvicted(greedy, "inodes")
	s.reported(diskPressure)
	s.do(calm, "fill 1MiB")
}

func (s *env) diskHog() {
	pods := s.pods(writer("calm"), writer("greedy"))
	calm, greedy := pods[0], pods[1]
	s.write(s.inside(calm), "some", 40*mib)
	s.fillUntil(short, greedy.EmptyDir("data"))
	s.awaitEvicted(greedy, "ephemeral-storage")
	s.reported(diskPressure)
	s.do(calm, "fill 1MiB")
}

// diskOrder runs two pods that write; the one with lower priority must be evicted first.
func (s *env) diskOrder() {
	pods := s.pods(of(highPriority, cluster.Hog("idle")), of(lowPriority, writer("less")), of(highPriority, writer("more")))
	idle, less, more := pods[0], pods[1], pods[2]
	s.write(s.inside(less), "some", 100*mib)
	s.fillUntil(short, more.EmptyDir("data"))
	s.awaitEvicted(less, "ephemeral-storage")
	s.reported(diskPressure)
	s.relieved()
	s.fillUntil(short, s.inside(more))
	s.awaitEvicted(more, "ephemeral-storage")
	s.inOrder(less, more)
	s.do(idle, "fill 1MiB")
}

// imagesFirst checks that unused images are removed before any pod is evicted.
func (s *env) imagesFirst() {
	calm := s.run(writer("calm"))
	images, err := s.Node.MakeImages(s.Context(), "unused", 3, 40*mib) // twice that on disk
	s.must(err)
	s.fillUntil(short, calm.EmptyDir("data"))
	s.reported(diskPressure)
	s.relieved()
	if left := s.images("unused"); left == len(images) {
		s.Errorf("got all %d images, want fewer", left)
	}
	for _, image := range images { // later scenarios must not rely on garbage
		_, err := s.Node.Images.RemoveImage(s.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
		s.must(err)
	}
	s.do(calm, "fill 1MiB")
}

// images counts the runtime's images with a prefix.
func (s *env) images(prefix string) (n int) {
	s.Helper()
	list, err := s.Node.Images.ListImages(s.Context(), &runtimeapi.ListImagesRequest{})
	s.must(err)
	for _, image := range list.Images {
		for _, tag := range image.RepoTags {
			if strings.HasPrefix(tag, "plimsoll.test/"+prefix) {
				n++
			}
		}
	}
	return n
}

// finishedFirst checks that the layers of finished pods are removed before a running pod is
// evicted.
func (s *env) finishedFirst() {
	calm := s.run(writer("calm"))
	once := writer("done")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	done := s.run(once)
	s.write(s.inside(done), "left", 200*mib)
	s.order(done, "exit 0")
	s.until("the pod has succeeded", func() bool { return s.pod(done).Status.Phase == corev1.PodSucceeded })
	s.fillUntil(short, calm.EmptyDir("data"))
	s.reported(diskPressure)
	s.relieved()
	if free, _ := s.free(); free < 200*mib {
		s.Errorf("%d bytes are free: the data of the finished pod was not removed", free)
	}
	s.do(calm, "fill 1MiB")
}

// limiting limits a container's ephemeral storage. It requests none: a kubelet without local
// storage isolation offers none.
func limiting(pod *corev1.Pod, bytes string) *corev1.Pod {
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(bytes)},
		Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("0")},
	}
	return pod
}

// sized limits the size of a writer's emptyDir.
func sized(pod *corev1.Pod, medium corev1.StorageMedium, bytes string) *corev1.Pod {
	pod.Spec.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: new(resource.MustParse(bytes))}
	return pod
}

// storageLimits checks limits without pressure. A pod above its limit is evicted; pods below
// it, or with files in memory, stay. The kubelet's own check is off meanwhile. It evicts for no
// other reason either, because it then measures no disks.
func (s *env) storageLimits() {
	const limit, key = "20Mi", "localStorageCapacityIsolation"
	s.Cleanup(func() { s.must(s.Node.Reconfigure(context.WithoutCancel(s.Context()), map[string]any{key: true})) })
	s.must(s.Node.Reconfigure(s.Context(), map[string]any{key: false}))
	if _, err := s.Node.GetFromKubelet(s.Context(), "/stats/summary"); err == nil || !strings.Contains(err.Error(), "500 Internal Server Error") {
		s.Errorf("statistics of the kubelet: got %v, want status 500, which the doctor requires (kubelet-blind)", err)
	}
	pods := s.pods(
		sized(writer("volume"), corev1.StorageMediumDefault, limit), limiting(writer("layer"), limit), limiting(writer("logs"), limit),
		limiting(sized(writer("within"), corev1.StorageMediumDefault, limit), limit), sized(writer("memory"), corev1.StorageMediumMemory, limit))
	volume, layer, logs, within, memory := pods[0], pods[1], pods[2], pods[3], pods[4]
	s.write(within.EmptyDir("data"), "some", 9*mib)
	s.write(s.inside(within), "some", 9*mib)
	s.write(filepath.Join(s.inside(memory), "volume"), "all", 20*mib)
	for _, over := range []struct {
		pod     *cluster.Pod
		dir     string
		message string
	}{
		{volume, volume.EmptyDir("data"), `Usage of EmptyDir volume "data" exceeds the limit "20Mi". `},
		{layer, s.inside(layer), "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "},
		{logs, filepath.Join(logs.Logs, "main"), "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "},
	} {
		s.expectEvicted[over.pod.Object.UID] = true
		s.write(over.dir, "too-much", 24*mib)
		s.until(over.pod.Object.Name+" is evicted", func() bool { return evicted(s.pod(over.pod)) })
		if got := s.first(over.pod, evicted).Status.Message; got != over.message {
			s.Errorf("pod %s: %q", over.pod.Object.Name, got)
		}
		s.event(over.pod, over.message)
	}
	s.do(within, "fill 1MiB")
	s.do(memory, "fill 1MiB")
}
