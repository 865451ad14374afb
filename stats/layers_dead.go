package stats

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// deadContainers are the containers that have exited and were not removed, and that the runtime has not
// reported the layers of, by the UID of their pod.
type deadContainers struct {
	at    time.Time
	byPod map[string][]deadContainer
}

type deadContainer struct{ id, name string }

// readDeadContainers lists the dead containers without a layer in an answer that was read just before.
// An older answer lacks new containers, and a later one those that were removed meanwhile. It is one more
// call of the runtime in each round. While the runtime does not answer, its last answer is used until it
// expires.
func (d *Directories) readDeadContainers(ctx context.Context) error {
	if d.options.Containers == nil {
		return nil
	}
	at := time.Now()
	found, err := d.options.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list dead containers by the container runtime: %w", err)
	}
	dead := deadContainers{at, map[string][]deadContainer{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range found {
		c := &found[i]
		_, reported := d.layers.byID[c.ID]
		if !reported && c.PodUID != "" && (c.State == cri.Exited || c.State == cri.UnknownState) {
			dead.byPod[c.PodUID] = append(dead.byPod[c.PodUID], deadContainer{c.ID, c.Name})
		}
	}
	d.dead = dead
	return nil
}

// addOtherLayers adds the layers of containers that the pod does not list as running. They are not
// ranked by, and not compared with limits.
func (m *merge) addOtherLayers(l *layers) {
	for _, id := range l.byPod[m.pod.UID] {
		if used := l.of(id); !m.lists(id) && (used.Bytes.Known || used.Inodes.Known) {
			m.otherLayers.Add(&used)
		}
	}
}

// noteUnreported marks the layers as incomplete if that of a dead container is not reported, as with
// CRI-O: it may have any size. Init containers do not count. Nearly every pod with one would be
// incomplete, and init containers rarely write into their layers.
func (m *merge) noteUnreported(l *layers, dead []deadContainer) {
	if !l.reported {
		return // no layer is measured by this runtime
	}
	for _, k := range dead {
		if _, reported := l.byID[k.id]; !reported && !m.isInit(k.name) {
			m.otherLayers.Incomplete = "the container runtime does not report the layer of dead container " + k.name
			return
		}
	}
}

// lists reports whether the pod lists a container as running.
func (m *merge) lists(id string) bool {
	return slices.ContainsFunc(m.pod.Containers, func(k signals.Container) bool { return k.ID == id })
}

func (m *merge) isInit(name string) bool {
	return slices.ContainsFunc(m.pod.Containers, func(k signals.Container) bool { return k.Name == name && k.Init })
}
