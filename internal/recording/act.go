package recording

import (
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the parts of an act. An agent stays far below them.
const (
	maxItems      = 1 << 10 // blocks, observations, collections, attempts, annotations
	maxCandidates = 1 << 14
	maxParts      = 1 << 10 // containers or volumes of a pod
)

// declareAct appends the frames of the pods of an act.
func (e *Encoder) declareAct(b []byte, a *Act) []byte {
	e.room += chosenRoom
	if a.Evicted != nil {
		b = e.declare(b, a.Evicted.Pod)
	}
	b = e.declare(b, a.KubeletsPod)
	for _, f := range a.Failed[:min(len(a.Failed), 1)] {
		b = e.declare(b, f.Pod)
	}
	e.room -= chosenRoom
	for _, f := range a.Failed {
		b = e.declare(b, f.Pod)
	}
	for _, p := range a.Ranking {
		b = e.declare(b, p)
	}
	for _, measured := range a.Measured {
		for i := range measured {
			b = e.declare(b, measured[i].Pod)
		}
	}
	return b
}

// declaredOnly returns the items with a pod that the segment has. The frame is cut if that is not each.
func declaredOnly[T any](e *Encoder, o *output, items []T, pod func(T) *signals.Pod) []T {
	missing := func(item T) bool { return e.number(pod(item)) == 0 }
	if !slices.ContainsFunc(items, missing) {
		return items
	}
	o.cut = true
	return slices.DeleteFunc(slices.Clone(items), missing)
}

// act appends the act of a check.
func (e *Encoder) act(o *output, c *Check) {
	a, at := c.Act, c.Snapshot.At
	evicted := a.Evicted
	if evicted != nil && e.number(evicted.Pod) == 0 {
		evicted, o.cut = nil, true
	}
	o.bits(a.ForLimits, a.Acted, evicted != nil, a.ForGrowth)
	for _, w := range a.Withdrawn[:o.count(len(a.Withdrawn), maxItems)] {
		o.text(w.UID)
		o.text(w.Namespace)
		o.text(w.Owner)
		o.varint(int64(w.DecidedAt.Sub(at)))
	}
	for _, reason := range a.Blocks[:o.count(len(a.Blocks), maxItems)] {
		e.block(o, reason)
	}
	for _, measured := range a.Measured[:o.count(len(a.Measured), maxItems)] {
		measured = declaredOnly(e, o, measured, func(c signals.Candidate) *signals.Pod { return c.Pod })
		for i := range o.count(len(measured), maxCandidates) {
			d := e.frame[measured[i].Pod]
			o.cut = o.cut || d.cut
			o.uvarint(d.number + 1)
			o.candidate(measured[i].Usage, d.stored, at)
		}
	}
	for i := range o.count(len(a.Seen), maxItems) {
		o.observations(&a.Seen[i], &c.Snapshot.Node, at)
	}
	for _, g := range a.Collections[:o.count(len(a.Collections), maxItems)] {
		o.bits(slices.Contains(g.Ran, signals.DeadContainers), slices.Contains(g.Ran, signals.UnusedImages), g.Done)
	}
	for _, t := range a.Attempts[:o.count(len(a.Attempts), maxItems)] {
		o.bits(t.Ends, t.DryRun)
		o.text(t.Err)
	}
	for _, d := range a.Deletions[:o.count(len(a.Deletions), maxCandidates)] {
		o.text(d.UID)
		o.bits(d.Killed, !d.Since.IsZero())
		if !d.Since.IsZero() {
			o.varint(int64(d.Since.Sub(at)))
		}
	}
	e.result(o, a, evicted)
}

// block appends the reason of a block. Hundreds of checks in sequence have the same one.
func (e *Encoder) block(o *output, reason string) {
	switch reason {
	case "":
		o.byte(0)
	case e.reason:
		o.byte(1)
	default:
		o.byte(2)
		o.text(reason)
		e.reason = reason
	}
}

// result appends what followed.
func (e *Encoder) result(o *output, a *Act, v *Evicted) {
	o.byte(byte(a.Signal))
	e.block(o, a.Blocked)
	o.bits(slices.Contains(a.Reclaimed, signals.DeadContainers), slices.Contains(a.Reclaimed, signals.UnusedImages))
	ranking := declaredOnly(e, o, a.Ranking, func(p *signals.Pod) *signals.Pod { return p })
	for _, p := range ranking[:o.count(len(ranking), maxCandidates)] {
		o.uvarint(e.number(p))
	}
	if v != nil {
		o.uvarint(e.number(v.Pod))
		o.bits(v.Hard, v.DisruptionTarget, v.DryRun)
		o.text(v.Cause)
		o.varint(v.GracePeriod)
		o.text(v.Message)
		keys := slices.Sorted(maps.Keys(v.Annotations))
		for _, key := range keys[:o.count(len(keys), maxItems)] {
			o.text(key)
			o.text(v.Annotations[key])
		}
	}
	failed := declaredOnly(e, o, a.Failed, func(f Failed) *signals.Pod { return f.Pod })
	for _, f := range failed[:o.count(len(failed), maxCandidates)] {
		o.uvarint(e.number(f.Pod))
		o.text(f.Error)
	}
	o.uvarint(uint64(min(a.Spared, maxCandidates)))
	o.uvarint(e.number(a.KubeletsPod))
	o.text(a.Limit)
}

// candidate appends the usage of a candidate. Names refer to those of the pod as it is stored.
func (o *output) candidate(u *signals.Usage, p *signals.Pod, at time.Time) {
	if u == nil {
		o.bits(false)
		return
	}
	o.bits(true, u.Memory.Known, u.Processes.Known, u.Tasks.Known, u.EphemeralStorage.Known, !u.Time.IsZero(), u.MemoryRelief.Known, u.MemoryFiles.Known)
	if !u.Time.IsZero() {
		o.varint(int64(u.Time.Sub(at)))
	}
	number(o, u.Memory)
	number(o, u.Processes)
	number(o, u.Tasks)
	number(o, u.EphemeralStorage)
	number(o, u.MemoryRelief)
	number(o, u.MemoryFiles)
	o.filesystem(&u.OtherLayers)
	o.filesystem(&u.KubeletFiles)
	for i := range o.count(len(u.Containers), maxParts) {
		k := &u.Containers[i]
		o.name(k.Name, 2*len(p.Containers), func(n int) string { return containerName(p, n) })
		o.bits(k.Memory.Known)
		number(o, k.Memory)
		o.filesystem(&k.Rootfs)
		o.filesystem(&k.Logs)
	}
	for i := range o.count(len(u.Volumes), maxParts) {
		v := &u.Volumes[i]
		o.name(v.Name, len(p.Volumes), func(n int) string { return p.Volumes[n].Name })
		o.filesystem(&v.FilesystemUsage)
	}
}

// containerName returns the n-th of the names by which usage may name a container: its name and its
// ID.
func containerName(p *signals.Pod, n int) string {
	if n%2 == 0 {
		return p.Containers[n/2].Name
	}
	return p.Containers[n/2].ID
}

// name appends a name by its place among the names of the pod, or as a text.
func (o *output) name(name string, count int, of func(int) string) {
	for n := range count {
		if of(n) == name {
			o.uvarint(uint64(n) + 1)
			return
		}
	}
	o.uvarint(0)
	o.text(name)
}

func (o *output) filesystem(u *signals.FilesystemUsage) {
	o.bits(u.Bytes.Known, u.Inodes.Known, u.Uncountable, u.Incomplete != "")
	number(o, u.Bytes)
	number(o, u.Inodes)
	if u.Incomplete != "" {
		o.text(u.Incomplete)
	}
}

// number appends a measured value, if it is known.
func number[T signals.Bytes | signals.Inodes | signals.PIDs](o *output, m signals.Measured[T]) {
	if m.Known {
		o.varint(int64(m.Value))
	}
}

// measured returns a value of [number] if it is known.
func measured[T signals.Bytes | signals.Inodes | signals.PIDs](in *input, known bool) signals.Measured[T] {
	if !known {
		return signals.Measured[T]{}
	}
	return signals.Of(T(in.varint()))
}

// act returns the act of a check.
func (d *decoder) act(in *input, c *Check) *Act {
	at, flags := c.Snapshot.At, in.byte()
	a := &Act{ForLimits: bit(flags, 0), Acted: bit(flags, 1), ForGrowth: bit(flags, 3)}
	for range in.count(maxItems) {
		a.Withdrawn = append(a.Withdrawn, Withdrawal{in.text(), in.text(), in.text(), at.Add(time.Duration(in.varint()))})
	}
	for range in.count(maxItems) {
		a.Blocks = append(a.Blocks, d.block(in))
	}
	for range in.count(maxItems) {
		measured := make([]signals.Candidate, 0, 16)
		for range in.count(maxCandidates) {
			measured = append(measured, d.candidate(in, at))
		}
		a.Measured = append(a.Measured, measured)
	}
	for range in.count(maxItems) {
		var seen signals.Observations
		in.observations(&seen, &c.Snapshot.Node, at)
		a.Seen = append(a.Seen, seen)
	}
	for range in.count(maxItems) {
		flags := in.byte()
		a.Collections = append(a.Collections, Collection{garbage(flags), bit(flags, 2)})
	}
	for range in.count(maxItems) {
		flags := in.byte()
		a.Attempts = append(a.Attempts, Attempt{Ends: bit(flags, 0), DryRun: bit(flags, 1), Err: in.text()})
	}
	for range in.count(maxCandidates) {
		deletion := Deletion{UID: in.text()}
		flags := in.byte()
		if deletion.Killed = bit(flags, 0); bit(flags, 1) {
			deletion.Since = at.Add(time.Duration(in.varint()))
		}
		a.Deletions = append(a.Deletions, deletion)
	}
	d.result(in, a, bit(flags, 2))
	return a
}

// block returns the reason of a block.
func (d *decoder) block(in *input) string {
	switch in.byte() {
	case 0:
		return ""
	case 1:
		return d.reason
	}
	d.reason = in.text()
	return d.reason
}

// garbage returns the kinds of garbage of the first two facts.
func garbage(flags byte) (kinds []signals.Garbage) {
	for i, kind := range [...]signals.Garbage{signals.DeadContainers, signals.UnusedImages} {
		if bit(flags, i) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (d *decoder) result(in *input, a *Act, evicted bool) {
	a.Signal = signals.Signal(in.below(signals.Count))
	a.Blocked = d.block(in)
	a.Reclaimed = garbage(in.byte())
	for range in.count(maxCandidates) {
		a.Ranking = append(a.Ranking, d.pod(in))
	}
	if evicted {
		v := &Evicted{Pod: d.pod(in), Annotations: map[string]string{}}
		flags := in.byte()
		v.Hard, v.DisruptionTarget, v.DryRun = bit(flags, 0), bit(flags, 1), bit(flags, 2)
		v.Cause, v.GracePeriod, v.Message = in.text(), in.varint(), in.text()
		for range in.count(maxItems) {
			key := in.text()
			v.Annotations[key] = in.text()
		}
		a.Evicted = v
	}
	for range in.count(maxCandidates) {
		a.Failed = append(a.Failed, Failed{Pod: d.pod(in), Error: in.text()})
	}
	a.Spared = in.below(maxCandidates + 1)
	a.KubeletsPod = d.optionalPod(in)
	a.Limit = in.text()
}

// candidate returns a candidate with its pod.
func (d *decoder) candidate(in *input, at time.Time) signals.Candidate {
	c := signals.Candidate{Pod: d.pod(in)}
	flags := in.byte()
	if in.bad || !bit(flags, 0) {
		return c
	}
	u := &signals.Usage{}
	if bit(flags, 5) {
		u.Time = at.Add(time.Duration(in.varint()))
	}
	u.Memory = measured[signals.Bytes](in, bit(flags, 1))
	u.Processes = measured[signals.PIDs](in, bit(flags, 2))
	u.Tasks = measured[signals.PIDs](in, bit(flags, 3))
	u.EphemeralStorage = measured[signals.Bytes](in, bit(flags, 4))
	u.MemoryRelief = measured[signals.Bytes](in, bit(flags, 6))
	u.MemoryFiles = measured[signals.Bytes](in, bit(flags, 7))
	in.filesystem(&u.OtherLayers)
	in.filesystem(&u.KubeletFiles)
	for range in.count(maxParts) {
		k := signals.ContainerUsage{Name: in.name(2*len(c.Pod.Containers), func(n int) string { return containerName(c.Pod, n) })}
		k.Memory = measured[signals.Bytes](in, bit(in.byte(), 0))
		in.filesystem(&k.Rootfs)
		in.filesystem(&k.Logs)
		u.Containers = append(u.Containers, k)
	}
	for range in.count(maxParts) {
		v := signals.VolumeUsage{Name: in.name(len(c.Pod.Volumes), func(n int) string { return c.Pod.Volumes[n].Name })}
		in.filesystem(&v.FilesystemUsage)
		u.Volumes = append(u.Volumes, v)
	}
	c.Usage = u
	return c
}

func (in *input) name(count int, of func(int) string) string {
	n := in.uvarint()
	switch {
	case n == 0:
		return in.text()
	case n > uint64(count):
		in.fail()
		return ""
	}
	return of(int(n - 1))
}

func (in *input) filesystem(u *signals.FilesystemUsage) {
	flags := in.byte()
	u.Bytes = measured[signals.Bytes](in, bit(flags, 0))
	u.Inodes = measured[signals.Inodes](in, bit(flags, 1))
	u.Uncountable = bit(flags, 2)
	if bit(flags, 3) {
		u.Incomplete = in.text()
	}
}
