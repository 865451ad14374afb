package recording

import (
	"encoding/json"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// decoder decodes the frames of a segment.
type decoder struct {
	header   *Header // nil before the first one, and for one of a later format
	pods     map[uint64]*signals.Pod
	podBytes int

	check     base
	reason    string
	haveCheck bool
	usage     map[uint64]*[ValueCount]int64
	node      [NodeValueCount]int64
	usageAt   time.Duration
	haveUsage bool

	// short: pods without their containers and volumes, and checks without acts and states.
	short bool
}

// lose notes that a frame is missing: decoding of differences continues with absolute frames.
func (d *decoder) lose() { d.haveCheck, d.haveUsage = false, false }

// begin begins a segment. It returns nil for a header that can not be decoded.
func (d *decoder) begin(payload []byte) *Header {
	*d = decoder{pods: map[uint64]*signals.Pod{}, usage: map[uint64]*[ValueCount]int64{}, short: d.short}
	var h Header
	if err := json.Unmarshal(payload, &h); err != nil || h.Format < 1 {
		return nil
	}
	if h.Format == Format {
		d.header = &h
	}
	return &h
}

// time returns a time since the start of the run.
func (d *decoder) time(since time.Duration) time.Time { return d.header.Started.Add(since) }

// declare decodes a pod.
func (d *decoder) declare(payload []byte) (ok bool) {
	in := input{b: payload}
	n := in.uvarint()
	d.podBytes += len(in.b)
	var p signals.Pod
	if in.bad || n >= maxPods || len(in.b) > maxPodJSON || d.podBytes > maxPodBytes || json.Unmarshal(in.b, &p) != nil {
		return false
	}
	if d.short {
		p.Containers, p.Ephemeral, p.Volumes, p.HostPaths = nil, nil, nil, nil
	}
	d.pods[n] = &p
	return true
}

// pod returns the pod of a number in the form of [Encoder.number].
func (d *decoder) pod(in *input) *signals.Pod {
	p := d.optionalPod(in)
	if p == nil {
		in.fail()
	}
	return p
}

func (d *decoder) optionalPod(in *input) *signals.Pod {
	n := in.uvarint()
	if n == 0 {
		return nil
	}
	return d.byNumber(in, n-1)
}

func (d *decoder) byNumber(in *input, n uint64) *signals.Pod {
	p := d.pods[n]
	if p == nil {
		in.fail()
	}
	return p
}

// decodeCheck decodes a check. It returns nil if that is impossible.
func (d *decoder) decodeCheck(payload []byte) *Check {
	in := input{b: payload}
	flags := in.byte()
	absolute := bit(flags, 0)
	if !absolute && !d.haveCheck {
		return nil
	}
	before := d.check
	if absolute {
		before, d.reason = base{}, ""
	}
	now := base{at: before.at + time.Duration(in.varint()), clock: before.clock + time.Duration(in.varint()), seq: before.seq + in.uvarint()}
	c := &Check{Clock: now.clock, Seq: now.seq, Lost: in.uvarint(), StorageLimits: bit(flags, 5), Brief: bit(flags, 6), Cut: bit(flags, cutBit)}
	s := &c.Snapshot
	s.At, s.NeedsConfirmation = d.time(now.at), bit(flags, 4)
	if bit(flags, 3) {
		s.Kind = signals.Early
	}
	s.Woken = signals.Wakes(in.byte())
	if c.Layout = signals.Layout(in.byte()); c.Layout > signals.Split {
		in.fail()
	}
	for _, set := range []*signals.Set{&c.Met, &c.Unknown, &c.Imminent} {
		*set = signals.Set(in.below(1 << signals.Count))
	}
	c.Conditions, c.Reason = signals.ConditionSet(in.byte()&(1<<signals.ConditionCount-1)), in.byte()
	in.observations(&s.Node, &before.node, s.At)
	in.rates(&s.Rates)
	now.node = s.Node
	if d.short && !in.bad {
		d.check, d.haveCheck = now, true
		return c
	}
	if bit(flags, 2) {
		c.Act = d.act(&in, c)
	}
	if bit(flags, 1) {
		if n := in.uvarint(); n != uint64(len(in.b)) {
			in.fail()
		}
		c.State, in.b = append([]byte{}, in.b...), nil
	}
	if in.bad || len(in.b) > 0 {
		return nil
	}
	d.check, d.haveCheck = now, true
	return c
}

func (in *input) observations(now, before *signals.Observations, at time.Time) {
	changed := signals.Set(in.below(1 << signals.Count))
	*now = *before
	for s := range signals.All {
		if changed.Has(s) {
			in.observation(&now[s], at)
		}
	}
}

// observation changes an observation to the one that follows.
func (in *input) observation(o *signals.Observation, at time.Time) {
	flags := in.byte()
	o.Known, o.Time = bit(flags, 0), time.Time{}
	if bit(flags, 6) {
		o.Time = at.Add(time.Duration(in.varint()))
	}
	for i, v := range [...]*signals.Amount{&o.Available, &o.Capacity, &o.Cache} {
		if bit(flags, 1+i) {
			*v += signals.Amount(in.varint())
		}
	}
	if bit(flags, 4) {
		o.Epoch = uint32(in.uvarint())
	}
	if bit(flags, 5) {
		o.Cause = in.text()
	}
}

func (in *input) rates(rates *[signals.Count]signals.Rate) {
	known := signals.Set(in.below(1 << signals.Count))
	for s := range signals.All {
		if known.Has(s) {
			rates[s] = signals.Rate{By: signals.Amount(in.varint()), Over: time.Duration(in.varint())}
		}
	}
}

// decodeUsage decodes a usage. It returns nil if that is impossible.
func (d *decoder) decodeUsage(payload []byte) *Usage {
	in := input{b: payload}
	flags := in.byte()
	switch {
	case bit(flags, 0):
		clear(d.usage)
		d.node, d.usageAt = [NodeValueCount]int64{}, 0
	case !d.haveUsage:
		return nil
	}
	d.haveUsage = false // until all of it is decoded
	d.usageAt += time.Duration(in.varint())
	u := &Usage{At: d.time(d.usageAt), Clock: time.Duration(in.varint()), Cut: bit(flags, cutBit)}
	in.differences(d.node[:])
	u.Node = d.node
	for range in.count(maxCandidates) {
		n := in.uvarint()
		p := PodUsage{Pod: d.byNumber(&in, n)}
		values := d.usage[n]
		if values == nil && !in.bad {
			values = new([ValueCount]int64)
			d.usage[n] = values
		}
		if in.bad {
			return nil
		}
		in.differences(values[:])
		p.Values = *values
		u.Pods = append(u.Pods, p)
	}
	for range in.count(maxCandidates) {
		n := in.uvarint()
		g := Gone{Pod: d.byNumber(&in, n), End: End(in.byte())}
		if g.End >= endCount {
			g.End = EndUnknown
		}
		delete(d.usage, n)
		u.Gone = append(u.Gone, g)
	}
	if in.bad || len(in.b) > 0 {
		return nil
	}
	d.haveUsage = true
	return u
}

func (in *input) differences(values []int64) {
	changed := in.below(1 << len(values))
	for i := range values {
		if changed&(1<<i) != 0 {
			values[i] += in.varint()
		}
	}
}

// decodeDecision decodes a line of the decision log. It returns nil if that is impossible.
func (d *decoder) decodeDecision(payload []byte) *Decision {
	in := input{b: payload}
	at, clock := time.Duration(in.varint()), time.Duration(in.varint())
	if in.bad || !json.Valid(in.b) {
		return nil
	}
	return &Decision{At: d.time(at), Clock: clock, Line: append(json.RawMessage{}, in.b...)}
}
