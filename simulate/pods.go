package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// learnNames notes the names in a list of pods, before any step is read. A step may refer to
// later pods, and to pods with faults.
func (r *reader) learnNames(list strictyaml.Value) {
	var ignored strictyaml.Faults
	for _, v := range list.Discard(&ignored).List() {
		metadata := v.Object("metadata").Get("metadata").Object("name", "namespace")
		r.known[key(orDefault(metadata.Get("namespace").Text()), metadata.Get("name").Text())] = true
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return corev1.NamespaceDefault
	}
	return namespace
}

// pods reads a list of core/v1 pods. A missing UID defaults to namespace/name.
func (r *reader) pods(v strictyaml.Value) []signals.Pod {
	var read []signals.Pod
	names, uids := map[string]bool{}, map[string]bool{}
	for _, v := range v.List() {
		var pod corev1.Pod
		if !v.Into(&pod) {
			continue
		}
		if pod.Name == "" {
			r.faults.Add(v.Path()+".metadata.name", "", "required, but left out")
			continue
		}
		pod.Namespace = orDefault(pod.Namespace)
		name := key(pod.Namespace, pod.Name)
		if pod.UID == "" {
			pod.UID = types.UID(name)
		}
		if names[name] {
			r.faults.Add(v.Path()+".metadata.name", name, "is already the name of a pod in this list")
		}
		if uids[string(pod.UID)] {
			r.faults.Add(v.Path()+".metadata.uid", string(pod.UID), "is already the UID of a pod in this list")
		}
		names[name], uids[string(pod.UID)] = true, true
		converted := agentpods.Convert(&pod)
		r.choices.Apply(&converted, pod.Annotations)
		read = append(read, converted)
	}
	return read
}

func readUsage(v strictyaml.Value, at time.Time) *signals.Usage {
	o := v.Object("memory", "processes", "ephemeralStorage", "containers", "volumes")
	u := &signals.Usage{
		Time:             at,
		Memory:           measured[signals.Bytes](o.Get("memory")),
		Processes:        measured[signals.PIDs](o.Get("processes")),
		EphemeralStorage: measured[signals.Bytes](o.Get("ephemeralStorage")),
	}
	for _, e := range o.Get("containers").Entries() {
		c := e.Value.Object("memory", "rootfs", "logs")
		u.Containers = append(u.Containers, signals.ContainerUsage{
			Name:   e.Key,
			Memory: measured[signals.Bytes](c.Get("memory")),
			Rootfs: readFilesystemUsage(c.Get("rootfs")),
			Logs:   readFilesystemUsage(c.Get("logs")),
		})
	}
	for _, e := range o.Get("volumes").Entries() {
		u.Volumes = append(u.Volumes, signals.VolumeUsage{Name: e.Key, FilesystemUsage: readFilesystemUsage(e.Value)})
	}
	return u
}

func readFilesystemUsage(v strictyaml.Value) signals.FilesystemUsage {
	o := v.Object("bytes", "inodes")
	return signals.FilesystemUsage{
		Bytes:  measured[signals.Bytes](o.Get("bytes")),
		Inodes: measured[signals.Inodes](o.Get("inodes")),
	}
}

func measured[T signals.Bytes | signals.Inodes | signals.PIDs](v strictyaml.Value) signals.Measured[T] {
	if !v.Present() {
		return signals.Measured[T]{}
	}
	return signals.Of(T(amount(v)))
}
