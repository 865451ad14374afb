package recording

import (
	"encoding/json"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Encoder encodes the frames of a run. A frame depends on those before it in its segment. After the
// begin of a segment, and after a frame that was not stored, Reset must be called.
type Encoder struct {
	header Header
	pods   map[string]declared       // by UID: the last one of the segment
	frame  map[*signals.Pod]declared // the pods of the present frame, which may have two versions of one
	next   uint64                    // number of the next pod

	limit    int // of a value with its new pods, in bytes
	podLimit int // of the pods of a segment, in bytes
	podBytes int // of the pods of the present segment
	room     int // for new pods of the present value

	check     base
	reason    string // the last one of a block since the last key frame
	haveCheck bool
	usage     map[uint64]*[ValueCount]int64 // by number of the pod
	node      [NodeValueCount]int64
	usageAt   time.Duration
	haveUsage bool
}

// declared is a pod that the segment has a frame of.
type declared struct {
	number uint64
	pod    *signals.Pod // the last one that was compared
	stored *signals.Pod // the part of it that is in the frame
	cut    bool         // a part is missing that decides
}

// cutBit is the place of [Check.Cut] in the first byte of a check, and of [Usage.Cut] in that of a usage.
const cutBit = 7

// base is the part of a check that the next one is the difference to.
type base struct {
	at    time.Duration // since the start of the run
	clock time.Duration
	seq   uint64
	node  signals.Observations
}

// NewEncoder returns an encoder for a run. The start of the run in its header should have a
// monotonic reading, as all later times, so that a step of the time of day changes no duration.
func NewEncoder(h Header) *Encoder {
	h.Format = Format
	e := &Encoder{header: h}
	e.Limit(4 * MaxPayload)
	e.Reset(h.Segment)
	return e
}

// Reset begins the segment of that number.
func (e *Encoder) Reset(segment uint64) {
	e.header.Segment = segment
	e.pods, e.frame, e.next, e.podBytes = map[string]declared{}, map[*signals.Pod]declared{}, 0, 0
	e.usage = map[uint64]*[ValueCount]int64{}
	e.haveCheck, e.haveUsage = false, false
}

// Limit sets the maximum size of a value with its new pods: that of a segment without its header.
func (e *Encoder) Limit(bytes int) { e.limit, e.podLimit = bytes, min(bytes/2, maxPodBytes*3/4) }

// IsFull reports whether the segment has little room left for new pods. Those that do not fit are left
// out of its values.
func (e *Encoder) IsFull() bool { return e.podBytes > e.podLimit*3/4 }

// SetCapacity sets the capacity and allocatable resources of later segments.
func (e *Encoder) SetCapacity(capacity, allocatable map[string]string) {
	e.header.Capacity, e.header.Allocatable = capacity, allocatable
}

// SetConfig sets the configuration of later segments.
func (e *Encoder) SetConfig(config json.RawMessage) { e.header.Config = config }

// Header appends the frame of the header: the first one of a segment. The next segments of the run
// have no state. It returns an error if the header can not be encoded.
func (e *Encoder) Header(b []byte) ([]byte, error) {
	text, err := json.Marshal(&e.header)
	if err != nil {
		return b, fmt.Errorf("encode the header of a recording: %w", err)
	}
	from := len(b)
	b, ok := seal(append(begin(b, kindHeader), text...), from)
	if !ok {
		return b, fmt.Errorf("encode the header of a recording: it has %d bytes, at most %d", len(text), MaxPayload-1)
	}
	return b, nil
}

// DropState removes the state from the headers of later segments: the first segment of the run is
// stored.
func (e *Encoder) DropState() { e.header.State = nil }

// since returns a time as the time since the start of the run.
func (e *Encoder) since(t time.Time) time.Duration { return t.Sub(e.header.Started) }

// begin begins a value.
func (e *Encoder) begin() {
	clear(e.frame)
	e.room = e.podLimit - e.podBytes
}

// seal completes the frame that begins at from. If it may not fit into a segment, it is removed and ok
// is false.
func (e *Encoder) seal(b []byte, from int) (sealed []byte, ok bool) {
	if len(b)-from > e.limit/2-chosenRoom {
		return b[:from], false
	}
	return seal(b, from)
}

// number returns the number of a declared pod plus one, and 0 for another one and for nil.
func (e *Encoder) number(p *signals.Pod) uint64 {
	if d, found := e.frame[p]; found {
		return d.number + 1
	}
	return 0
}

// Check appends the frame of a check, after those of new pods. A check that is too large is appended
// without the pods that it measured. If that is too large, it is not appended and ok is false.
func (e *Encoder) Check(b []byte, c *Check) (with []byte, ok bool) {
	e.begin()
	if with, ok = e.encode(b, c); ok || c.Act == nil {
		return with, ok
	}
	cut, act := *c, *c.Act
	act.Measured, act.Ranking = nil, nil
	cut.Act, cut.Cut = &act, true
	return e.encode(with, &cut)
}

// encode appends the frame of a check, after those of new pods.
func (e *Encoder) encode(b []byte, c *Check) (with []byte, ok bool) {
	if c.Act != nil {
		b = e.declareAct(b, c.Act)
	}
	absolute := !e.haveCheck || c.State != nil
	before := e.check
	if absolute {
		before, e.reason = base{}, ""
	}
	now := base{at: e.since(c.Snapshot.At), clock: c.Clock, seq: c.Seq, node: c.Snapshot.Node}
	from, s := len(b), &c.Snapshot
	o := output{b: begin(b, kindCheck)}
	o.bits(absolute, c.State != nil, c.Act != nil, s.Kind == signals.Early, s.NeedsConfirmation, c.StorageLimits, c.Brief, c.Cut)
	o.varint(int64(now.at - before.at))
	o.varint(int64(now.clock - before.clock))
	o.uvarint(c.Seq - before.seq)
	o.uvarint(c.Lost)
	o.byte(byte(s.Woken))
	o.byte(byte(c.Layout))
	for _, set := range []signals.Set{c.Met, c.Unknown, c.Imminent} {
		o.uvarint(uint64(set))
	}
	o.byte(byte(c.Conditions))
	o.byte(c.Reason)
	o.observations(&s.Node, &before.node, s.At)
	o.rates(&s.Rates)
	if c.Act != nil {
		e.act(&o, c)
	}
	if c.State != nil {
		o.uvarint(uint64(len(c.State)))
		o.b = append(o.b, c.State...)
	}
	if o.cut {
		o.b[from+headSize+1] |= 1 << cutBit
	}
	if b, ok = e.seal(o.b, from); !ok {
		e.haveCheck = false // the next one is absolute
		return b, false
	}
	e.check, e.haveCheck = now, true
	if absolute {
		e.haveUsage = false
	}
	return b, true
}

// observations appends those that differ from before, with their times relative to the given one.
func (o *output) observations(now, before *signals.Observations, at time.Time) {
	var changed signals.Set
	for s := range signals.All {
		if !same(&now[s], &before[s]) {
			changed.Add(s)
		}
	}
	o.uvarint(uint64(changed))
	for s := range signals.All {
		if changed.Has(s) {
			o.observation(&now[s], &before[s], at)
		}
	}
}

// same reports whether two observations have the same encoding.
func same(a, b *signals.Observation) bool {
	return a.Known == b.Known && a.Available == b.Available && a.Capacity == b.Capacity && a.Cache == b.Cache &&
		a.Epoch == b.Epoch && a.Cause == b.Cause && a.Time.Equal(b.Time)
}

func (o *output) observation(now, before *signals.Observation, at time.Time) {
	timed := !now.Time.IsZero()
	o.bits(now.Known, now.Available != before.Available, now.Capacity != before.Capacity, now.Cache != before.Cache,
		now.Epoch != before.Epoch, now.Cause != before.Cause, timed)
	if timed {
		o.varint(int64(now.Time.Sub(at)))
	}
	for _, v := range [...][2]signals.Amount{{now.Available, before.Available}, {now.Capacity, before.Capacity}, {now.Cache, before.Cache}} {
		if v[0] != v[1] {
			o.varint(int64(v[0] - v[1]))
		}
	}
	if now.Epoch != before.Epoch {
		o.uvarint(uint64(now.Epoch))
	}
	if now.Cause != before.Cause {
		o.text(now.Cause)
	}
}

func (o *output) rates(rates *[signals.Count]signals.Rate) {
	var known signals.Set
	for s := range signals.All {
		if rates[s] != (signals.Rate{}) {
			known.Add(s)
		}
	}
	o.uvarint(uint64(known))
	for s := range signals.All {
		if known.Has(s) {
			o.varint(int64(rates[s].By))
			o.varint(int64(rates[s].Over))
		}
	}
}

// Usage appends the frame of a usage, after those of new pods. If it is too large, it is not
// appended and ok is false.
func (e *Encoder) Usage(b []byte, u *Usage) (with []byte, ok bool) {
	e.begin()
	for i := range u.Pods {
		b = e.declare(b, u.Pods[i].Pod)
	}
	for i := range u.Gone {
		b = e.declare(b, u.Gone[i].Pod)
	}
	absolute := !e.haveUsage
	var node [NodeValueCount]int64
	if absolute {
		clear(e.usage)
		e.usageAt = 0
	} else {
		node = e.node
	}
	at := e.since(u.At)
	from := len(b)
	o := output{b: begin(b, kindUsage)}
	o.bits(absolute)
	o.varint(int64(at - e.usageAt))
	o.varint(int64(u.Clock))
	o.differences(u.Node[:], node[:])
	pods := declaredOnly(e, &o, u.Pods, func(p PodUsage) *signals.Pod { return p.Pod })
	for i := range o.count(len(pods), maxCandidates) {
		p := &pods[i]
		n := e.frame[p.Pod].number
		o.uvarint(n)
		before := e.usage[n]
		if before == nil {
			before = new([ValueCount]int64)
			e.usage[n] = before
		}
		o.differences(p.Values[:], before[:])
		*before = p.Values
	}
	gone := declaredOnly(e, &o, u.Gone, func(g Gone) *signals.Pod { return g.Pod })
	for _, g := range gone[:o.count(len(gone), maxCandidates)] {
		n := e.frame[g.Pod].number
		o.uvarint(n)
		o.byte(byte(g.End))
		delete(e.usage, n)
	}
	if o.cut {
		o.b[from+headSize+1] |= 1 << cutBit
	}
	if b, ok = e.seal(o.b, from); !ok {
		e.haveUsage = false // the next one is absolute
		return b, false
	}
	e.node, e.usageAt, e.haveUsage = u.Node, at, true
	return b, true
}

// differences appends which values differ, and by how much.
func (o *output) differences(now, before []int64) {
	var changed uint64
	for i := range now {
		if now[i] != before[i] {
			changed |= 1 << i
		}
	}
	o.uvarint(changed)
	for i := range now {
		if now[i] != before[i] {
			o.varint(now[i] - before[i])
		}
	}
}

// Decision appends the frame of a line of the decision log. If it is too large, it is not appended
// and ok is false.
func (e *Encoder) Decision(b []byte, d *Decision) (with []byte, ok bool) {
	from := len(b)
	o := output{b: begin(b, kindDecision)}
	o.varint(int64(e.since(d.At)))
	o.varint(int64(d.Clock))
	o.b = append(o.b, d.Line...)
	return e.seal(o.b, from)
}
