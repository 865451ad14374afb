package stats

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// Merge adds the last results to candidates, as far as they still count: the
// writable layer and the logs of each container, its volumes, and the sum of
// all as ephemeral storage. The candidates get usages of their own: those they
// came with belong to whoever made them and are not changed. A candidate
// without a usage gets one if anything was measured of it. Candidates of which
// nothing is known stay as they are.
//
// It waits for no disk, and takes about 1 µs and a few hundred bytes a pod.
func (d *Directories) Merge(candidates []signal.Candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i := range candidates {
		c := &candidates[i]
		m := merge{now: now, pod: c.Pod, from: c.Usage}
		if d.counts(d.layers.at, now) {
			m.addLayers(&d.layers)
		}
		for _, p := range d.pods[c.Pod.UID].parts {
			if d.counts(p.at, now) {
				m.addPart(&p)
			}
		}
		if m.into != nil {
			c.Usage = m.into
		}
	}
}

// A merge makes the usage of one candidate, once there is something to add.
type merge struct {
	now    time.Time
	pod    *signal.Pod
	from   *signal.Usage // nil for a pod without
	into   *signal.Usage // nil until something was added
	summed bool          // the sum is of what was added, and not of what was there
}

// add counts bytes to the pod's sum and returns the usage to say more in.
func (m *merge) add(bytes signal.Bytes) *signal.Usage {
	u := m.usage()
	if !m.summed {
		u.EphemeralStorage, m.summed = signal.Of[signal.Bytes](0), true
	}
	sum := &m.into.EphemeralStorage.Value
	*sum = signal.Bytes(signal.Amount(*sum).Plus(signal.Amount(bytes)))
	return m.into
}

// usage is a copy of the candidate's.
func (m *merge) usage() *signal.Usage {
	if m.into == nil {
		m.into = &signal.Usage{Time: m.now}
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
		if used := l.of(k); used.Bytes.Known || used.Inodes.Known {
			containerOf(m.add(used.Bytes.Value), k).Rootfs = used
		}
	}
}

func (m *merge) addPart(p *part) {
	used := signal.FilesystemUsage{Bytes: signal.Of(p.bytes), Inodes: signal.Of(p.inodes), Incomplete: p.short, Uncountable: p.beyond}
	var u *signal.Usage
	switch {
	case p.inodes > 0 || p.short == "":
		u = m.add(p.bytes)
	case m.from == nil && m.into == nil:
		return // nothing is known of the pod
	default: // of the directory
		u, used.Bytes, used.Inodes = m.usage(), signal.Measured[signal.Bytes]{}, signal.Measured[signal.Inodes]{}
	}
	switch p.storage {
	case signal.Logs:
		for i := range m.pod.Containers {
			if k := &m.pod.Containers[i]; k.Name == p.name {
				containerOf(u, k).Logs = used
			}
		}
	case signal.LocalVolumes:
		volumeOf(u, p.name).FilesystemUsage = used
	}
}

// containerOf finds the usage of a container, which may be named by its ID, or
// adds one.
func containerOf(u *signal.Usage, k *signal.Container) *signal.ContainerUsage {
	if found := u.Container(k); found != nil {
		return found
	}
	u.Containers = append(u.Containers, signal.ContainerUsage{Name: k.Name})
	return &u.Containers[len(u.Containers)-1]
}

func volumeOf(u *signal.Usage, name string) *signal.VolumeUsage {
	if found := u.Volume(name); found != nil {
		return found
	}
	u.Volumes = append(u.Volumes, signal.VolumeUsage{Name: name})
	return &u.Volumes[len(u.Volumes)-1]
}
