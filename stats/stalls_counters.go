package stats

import (
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// counters reads the kernel's counters of waiting cgroups.
type counters struct {
	h   cgroup.Hierarchy
	buf *cgroup.Buffer
}

// snapshot reads the counters of a cgroup and its containers. Containers that vanish meanwhile
// are omitted.
func (c *counters) snapshot(w watched) (*snapshot, error) {
	now := &snapshot{path: w.path, inode: w.inode, groups: make(map[string]tally, 1+len(w.containers))}
	now.waited, now.recent = c.waited(w.path)
	own, err := c.tally(w.path, w.pod == nil)
	if err != nil {
		return nil, err
	}
	now.groups[w.path] = own
	for _, k := range w.containers {
		t, err := c.ofContainer(k.Path)
		if cgroup.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		now.groups[k.Path] = t
	}
	return now, nil
}

// isIdle reports whether no task has waited for memory since. Then no limit was met either,
// because the kernel counts reclaim at a limit as waiting.
func (c *counters) isIdle(since *snapshot) bool {
	if since == nil || !since.waited.Known {
		return false
	}
	waited, _ := c.waited(since.path)
	return waited == since.waited
}

// tally reads the counters of a pod's cgroup or of a part of the node. For a part of the node
// (alone) it excludes the limits below.
func (c *counters) tally(path string, alone bool) (t tally, err error) {
	if c.h.Version == cgroup.V1 {
		return c.tallyV1(path)
	}
	file := "memory.events"
	if alone {
		file = "memory.events.local"
	}
	text, err := c.text("memory", path, file)
	if err != nil {
		return tally{}, err
	}
	events, err := cgroup.ParseMemoryEvents(text)
	if err != nil {
		return tally{}, err
	}
	t = tally{atMax: events.Max, atHigh: events.High, oom: events.OOM, oomKills: events.OOMKill}
	t.throttled, err = c.throttled(path)
	return t, err
}

// ofContainer reads the counters of a container. On version 2 the pod's events include the
// container's.
func (c *counters) ofContainer(path string) (t tally, err error) {
	if c.h.Version == cgroup.V1 {
		return c.tallyV1(path)
	}
	t.throttled, err = c.throttled(path)
	return t, err
}

// tallyV1 reads the charge failures of a cgroup that has a limit.
func (c *counters) tallyV1(path string) (t tally, err error) {
	limit, limited, err := c.limit(path, limitFiles[cgroup.V1].max)
	if err == nil && limited {
		t, err = c.failures(path, limit)
	}
	if err != nil {
		return tally{}, err
	}
	text, err := c.text("memory", path, "memory.oom_control")
	if err != nil {
		return tally{}, err
	}
	if t.oomKills, err = cgroup.ParseOOMKills(text); err != nil {
		return tally{}, err
	}
	t.throttled, err = c.throttled(path)
	return t, err
}

// failures reads the number of limit hits. With swap accounting, the kernel checks the limit of
// memory and swap together first. Runtimes set it to the same amount, and newer kernels (6.18,
// not 6.1) no longer count its failures. In that case a current or past usage at the limit
// counts instead.
func (c *counters) failures(path string, limit uint64) (t tally, err error) {
	failed, err := c.number(path, "memory.failcnt")
	if err != nil {
		return tally{}, err
	}
	withSwap, err := c.number(path, "memory.memsw.failcnt")
	if err != nil && !cgroup.IsGone(err) {
		return tally{}, err
	}
	if t.atMax = failed + withSwap; t.atMax > 0 {
		t.oom = t.atMax
		return t, nil
	}
	peak, err := c.number(path, "memory.max_usage_in_bytes")
	if err != nil || reached(peak, limit) == 0 {
		return tally{}, err
	}
	usage, err := c.number(path, limitFiles[cgroup.V1].usage)
	return tally{wasFull: true, isFull: reached(usage, limit) > 0}, err
}

// throttled returns the time for which the cgroup's own quota has throttled its tasks. It is 0
// if the cgroup is not in the cpu controller, because it has no quota then.
func (c *counters) throttled(path string) (time.Duration, error) {
	text, err := c.text("cpu", path, "cpu.stat")
	if cgroup.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	t, _, err := cgroup.ParseThrottling(text, c.h.Version)
	return t.Time, err
}

// waited returns the time for which tasks of the cgroup have waited for memory, in total and
// within the last 10 s. Version 1 has no such counter. A version 2 tree mounted beside it
// (hybrid, as with systemd) has one if it contains the processes too.
func (c *counters) waited(path string) (total signals.Measured[time.Duration], recent time.Duration) {
	tree := "memory"
	if c.h.Version == cgroup.V1 {
		tree = "unified"
	}
	text, err := c.text(tree, path, "memory.pressure")
	if err != nil {
		return total, 0
	}
	p, err := cgroup.ParsePressure(text)
	if err != nil || c.h.Version == cgroup.V1 && p.Total == 0 && !c.populated(tree, path) {
		return total, 0
	}
	return signals.Of(p.Total), recently * time.Duration(p.Avg10) / (100 * 100)
}

func (c *counters) populated(tree, path string) bool {
	text, err := c.text(tree, path, "cgroup.events")
	if err != nil {
		return false
	}
	populated, err := cgroup.ParsePopulated(text)
	return err == nil && populated
}

func (c *counters) number(path, file string) (uint64, error) {
	text, err := c.text("memory", path, file)
	if err != nil {
		return 0, err
	}
	return cgroup.ParseSingleValue(text)
}

// text reads a file of a cgroup. The result is valid until the next call.
func (c *counters) text(controller, path, file string) ([]byte, error) {
	f, err := cgroup.OpenFile(filepath.Join(c.h.Dir(controller, path), file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(c.buf)
}
