package stats

import (
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// counters reads what the kernel counts of cgroups that wait.
type counters struct {
	h   cgroup.Hierarchy
	buf *cgroup.Buffer
}

// standing reads where a cgroup and its containers' stand. Containers that went
// meanwhile are left out.
func (c *counters) standing(w watched) (*standing, error) {
	now := &standing{path: w.path, inode: w.inode, groups: make(map[string]tally, 1+len(w.containers))}
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

// calm reports whether no task has waited for memory since: then none has met a
// limit either, as the kernel counts what it does there as waiting.
func (c *counters) calm(since *standing) bool {
	if since == nil || !since.waited.Known {
		return false
	}
	waited, _ := c.waited(since.path)
	return waited == since.waited
}

// tally reads what is counted of a pod's cgroup, or of a part of the node, of
// which the limits below it are no business.
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

// ofContainer reads what is counted of a container. On version 2 the pod's
// events contain its own.
func (c *counters) ofContainer(path string) (t tally, err error) {
	if c.h.Version == cgroup.V1 {
		return c.tallyV1(path)
	}
	t.throttled, err = c.throttled(path)
	return t, err
}

// tallyV1 reads the failures to charge of a cgroup that has a limit.
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

// failures reads how often the limit was met. With swap accounted, the limit of
// memory and swap together is tried first, which runtimes set to the same
// amount, and newer kernels (6.18, not 6.1) do not count its failures any more:
// usage that is or was at the limit has to do then.
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
	most, err := c.number(path, "memory.max_usage_in_bytes")
	if err != nil || reached(most, limit) == 0 {
		return tally{}, err
	}
	usage, err := c.number(path, limitFiles[cgroup.V1].usage)
	return tally{wasFull: true, isFull: reached(usage, limit) > 0}, err
}

// throttled is for how long the cgroup's own quota has held its tasks back; 0
// where the cpu controller does not know the cgroup, which has no quota then.
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

// waited is for how long tasks of the cgroup have waited for memory, in all and
// of the last 10 s. Version 1 keeps no such count; where a tree of version 2 is
// mounted beside it (hybrid, as systemd has it) and holds the processes too, that
// one does.
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

// text reads a file of a cgroup, valid until the next one is read.
func (c *counters) text(controller, path, file string) ([]byte, error) {
	f, err := cgroup.OpenFile(filepath.Join(c.h.Dir(controller, path), file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(c.buf)
}
