package stats

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Merge adds the last results to candidates while they are current: the writable layer and logs
// of each container, the volumes, and the sum of all as ephemeral storage. The layers of other
// containers of the pod and the files of the kubelet are added apart. Each changed candidate
// receives its own copy of the usage; the original stays unchanged. A candidate without a usage
// receives one if anything was measured. Candidates without a measurement stay unchanged.
//
// It does not wait for a disk, and takes about 1 µs and a few hundred bytes per pod.
func (d *Directories) Merge(candidates []signals.Candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i := range candidates {
		c := &candidates[i]
		m := merge{now: now, pod: c.Pod, from: c.Usage}
		if d.counts(d.layers.at, now) {
			m.addLayers(&d.layers)
			m.addOtherLayers(&d.layers)
			if d.counts(d.dead.at, now) {
				m.noteUnreported(&d.layers, d.dead.byPod[c.Pod.UID])
			}
		}
		for _, p := range d.pods[c.Pod.UID].parts {
			if d.counts(p.at, now) {
				m.addPart(&p)
			}
		}
		if u := m.result(); u != nil {
			c.Usage = u
		}
	}
}

// merge builds the usage of one candidate, once there is something to add.
type merge struct {
	now    time.Time
	pod    *signals.Pod
	from   *signals.Usage // nil for a pod without usage
	into   *signals.Usage // nil until something is added
	summed bool           // the sum contains only added amounts

	otherLayers, kubeletFiles signals.FilesystemUsage
}

// result returns the usage, or nil if nothing was added.
func (m *merge) result() *signals.Usage {
	if m.otherLayers != (signals.FilesystemUsage{}) {
		m.usage()
	}
	if m.into != nil {
		m.into.OtherLayers, m.into.KubeletFiles = m.otherLayers, m.kubeletFiles
	}
	return m.into
}

// add adds bytes to the pod's sum and returns the usage for further changes.
func (m *merge) add(bytes signals.Bytes) *signals.Usage {
	u := m.usage()
	if !m.summed {
		u.EphemeralStorage, m.summed = signals.Of[signals.Bytes](0), true
	}
	sum := &m.into.EphemeralStorage.Value
	*sum = signals.Bytes(signals.Amount(*sum).Plus(signals.Amount(bytes)))
	return m.into
}

// usage returns the copy of the candidate's usage.
func (m *merge) usage() *signals.Usage {
	if m.into == nil {
		m.into = &signals.Usage{Time: m.now}
		if m.from != nil {
			*m.into = *m.from
			m.into.Containers, m.into.Volumes = slices.Clone(m.from.Containers), slices.Clone(m.from.Volumes)
		}
	}
	return m.into
}

func (m *merge) addLayers(l *layers) {
	for i := range m.pod.Containers {
		k := &m.pod.Containers[i]
		if used := l.of(k.ID); used.Bytes.Known || used.Inodes.Known {
			containerOf(m.add(used.Bytes.Value), k).Rootfs = used
		}
	}
}

func (m *merge) addPart(p *part) {
	used := signals.FilesystemUsage{Bytes: signals.Of(p.bytes), Inodes: signals.Of(p.inodes), Incomplete: p.short, Uncountable: p.uncountable}
	var u *signals.Usage
	switch {
	case p.inodes > 0 || p.short == "":
		u = m.add(p.bytes)
	case m.from == nil && m.into == nil:
		return // the pod has no usage
	default: // the directory has no measurement
		u, used.Bytes, used.Inodes = m.usage(), signals.Measured[signals.Bytes]{}, signals.Measured[signals.Inodes]{}
	}
	switch p.storage {
	case signals.Logs:
		for i := range m.pod.Containers {
			if k := &m.pod.Containers[i]; k.Name == p.name {
				containerOf(u, k).Logs = used
			}
		}
	case signals.LocalVolumes:
		volumeOf(u, p.name).FilesystemUsage = used
	default:
		m.kubeletFiles.Add(&used)
	}
}

// containerOf returns the usage of a container, which may be named by its ID, or adds one.
func containerOf(u *signals.Usage, k *signals.Container) *signals.ContainerUsage {
	if found := u.Container(k); found != nil {
		return found
	}
	u.Containers = append(u.Containers, signals.ContainerUsage{Name: k.Name})
	return &u.Containers[len(u.Containers)-1]
}

func volumeOf(u *signals.Usage, name string) *signals.VolumeUsage {
	if found := u.Volume(name); found != nil {
		return found
	}
	u.Volumes = append(u.Volumes, signals.VolumeUsage{Name: name})
	return &u.Volumes[len(u.Volumes)-1]
}
