package app

import (
	"context"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
)

// evictionsSection is the section of the state file with the records of evictions that the API server does not
// have yet.
const evictionsSection = "evictionRecords"

// openEvictionRecords starts to record evictions in the cluster, beginning with those of an earlier run.
func (a *app) openEvictionRecords(ctx context.Context) {
	if a.config.EvictionRecordNamespace == "" {
		return
	}
	earlier := ""
	if a.state != nil {
		earlier = loadSection[string](a.state, evictionsSection, "records of evictions that were not written yet are lost", a.log)
	}
	parts := store.Parts{Client: a.api.Client(), Namespace: a.config.EvictionRecordNamespace, NodeName: a.api.NodeName(),
		Log: a.log, Unwritten: saveUnwritten(a.state, a.metrics.PendingEvictionRecords)}
	if a.config.EvictionRecordOwner == config.OwnedByNode {
		parts.Node = a.apiNode.Object
	}
	a.reporter.evictions = store.New(parts)
	a.runEvictionRecords(ctx, earlier)
}

// runEvictionRecords writes records until close, since the loop reports evictions after the end of ctx.
func (a *app) runEvictionRecords(ctx context.Context, earlier string) {
	ctx, a.endRecords = context.WithCancel(context.WithoutCancel(ctx))
	a.group.Go(func() { a.reporter.evictions.Run(ctx, earlier) })
}

// saveUnwritten returns a function that stores unwritten records in the state file, which may be nil, and counts
// them.
func saveUnwritten(state *checkpoint.Sections, count func(int)) func(string, int) {
	return func(text string, records int) {
		count(records)
		if state != nil {
			state.Save(evictionsSection, text)
		}
	}
}

// recordEviction records an eviction in the cluster, or how it goes on.
func (r *reporter) recordEviction(d *agent.Decision) {
	if r.evictions == nil {
		return
	}
	switch d.Decision {
	case agent.Evicted, agent.SoftEvicting:
		r.evictions.Add(d)
	case agent.Escalated, agent.SoftEnded, agent.Withdrawn, agent.ReclaimDone:
		r.evictions.Change(d.UID, func(e *agent.Decision) bool { return goOn(e, d) })
	}
}

// goOn adds a later decision about an eviction to its record. It returns false if that decision is about another
// eviction of the same pod.
func goOn(e, later *agent.Decision) bool {
	if later.Decision != agent.ReclaimDone && e.Grace == nil { // a hard eviction, and the soft one that it replaced
		return false
	}
	switch later.Decision {
	case agent.Escalated:
		e.End = evictionlog.Escalated + later.Reason
	case agent.Withdrawn:
		e.End, e.Failed = evictionlog.Withdrawn, later.Failed
	case agent.SoftEnded:
		e.Processes, e.Status, e.ExitTime, e.ProcessesRemain, e.Failed = later.Processes, later.Status, later.ExitTime, later.ProcessesRemain, later.Failed
		end := evictionlog.Ended
		if len(later.Failed) > 0 {
			end = evictionlog.NotEnded
		}
		e.End = evictionlog.Then(e.End, end)
	case agent.ReclaimDone:
		if !evictionlog.IsOpen(e.End) || later.Signal != evictionlog.Cause(e) {
			return false
		}
		if e.End = evictionlog.Then(e.End, later.Reason); later.FreedBytes != nil {
			e.FreedBytes = later.FreedBytes
		}
	}
	return true
}
