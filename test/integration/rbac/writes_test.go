package rbac_test

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// write is one write by the agent's own code, at a place that may not be its own.
type write struct {
	what  string
	right right // file, namespace, group, resource, verb
	// do makes the write, and returns when ctx ends or nothing is left to do.
	do func(ctx context.Context, client kubernetes.Interface, own, at *place)
	// before prepares the place so that there is something to write.
	before func(*place)
	// exception: it can not be bound to a node, see docs/explanation/security.md.
	exception bool
}

var (
	patchNodeStatus = right{agentFile, "", "", "nodes/status", "patch"}
	patchNodes      = right{"agent-pressure-taint.yaml", "", "", "nodes", "patch"}
	patchPodStatus  = right{agentFile, "", "", "pods/status", "patch"}
	createEvents    = right{agentFile, "", "", "events", "create"}
	patchEvents     = right{agentFile, "", "", "events", "patch"}
	createEvictions = right{"agent-direct-eviction.yaml", "", "", "pods/eviction", "create"}
)

func lease(verb string) right {
	return right{agentFile, namespace, "coordination.k8s.io", "leases", verb}
}

func record(verb string) right { return right{agentFile, evictions, "", "configmaps", verb} }

func nodeLease(verb string) right {
	return right{"agent-node-lease.yaml", corev1.NamespaceNodeLease, "coordination.k8s.io", "leases", verb}
}

// writes lists all writes of the agent. The test fails on a granted right without a write here.
var writes = []write{
	{what: "conditions of our own", right: patchNodeStatus, do: reportPressure(nodestatus.OwnTypes, false)},
	{what: "standard conditions", right: patchNodeStatus, do: reportPressure(nodestatus.StandardTypes, false)},
	{what: "conditions that are withdrawn", right: patchNodeStatus, do: reportPressure(nodestatus.KubeletReports, false), before: (*place).conditioned},
	{what: "all conditions are withdrawn", right: patchNodeStatus, do: cleanUp, before: (*place).conditioned},
	{what: "a taint is removed", right: patchNodes, do: reportPressure(nodestatus.KubeletReports, false), before: (*place).tainted},
	{what: "a taint is added", right: patchNodes, do: reportPressure(nodestatus.OwnTypes, true)},

	{what: "a pod was evicted", right: patchPodStatus, do: evicted},
	{what: "a pod was evicted, reported late", right: patchPodStatus, do: evictedLate},
	{what: "a pod above a limit was evicted", right: patchPodStatus, do: aboveLimit},
	{what: "a pod is evicted again", right: patchPodStatus, do: evicted, before: (*place).evictedBefore},
	{what: "a soft eviction is requested", right: patchPodStatus, do: soft("status", podstatus.Soft.Request)},
	{what: "a soft eviction is withdrawn", right: patchPodStatus, do: withdrawn, before: (*place).marked},
	{what: "a soft eviction by the agent", right: createEvictions, do: soft("direct", podstatus.Soft.Request), exception: true},

	{what: "an event of a pod", right: createEvents, do: announced, exception: true},
	{what: "an event of a pod, in its node's name", right: createEvents, do: announcedAsNeighbour},
	{what: "an event of the node", right: createEvents, do: events(1)},
	{what: "a repeated event of the node", right: patchEvents, do: events(2)},

	{what: "a first heartbeat", right: lease("create"), do: renewLease},
	{what: "a later heartbeat", right: lease("update"), do: renewLease, before: (*place).leased},
	{what: "a first record of evictions", right: record("create"), do: recordEviction},
	{what: "a later record of evictions", right: record("update"), do: recordEviction, before: (*place).recorded},
	{what: "a new node lease", right: nodeLease("create"), do: nodeHeartbeat},
	{what: "a renewed node lease", right: nodeLease("update"), do: nodeHeartbeat, before: (*place).leased},
}

// reportPressure reports memory pressure.
func reportPressure(owner nodestatus.Owner, taint bool) func(context.Context, kubernetes.Interface, *place, *place) {
	return func(ctx context.Context, client kubernetes.Interface, _, at *place) {
		c := nodestatus.NewConditions(nodestatus.ConditionParts{
			Client: apitest.From(client), NodeName: at.node, Transition: time.Minute, Taint: taint, Log: quiet(),
			Owner: func(*corev1.Node) nodestatus.Owners { return owner.All() },
		})
		var set signals.ConditionSet
		set.Add(signals.MemoryPressure)
		c.Set(set, nodestatus.Crossings{signals.MemoryPressure: {Met: true, Signal: signals.MemoryAvailable, Threshold: "100Mi", Available: 1 << 20}})
		c.Run(ctx)
	}
}

// cleanUp does the cleanup of a disarmed or uninstalled agent.
func cleanUp(ctx context.Context, client kubernetes.Interface, _, at *place) {
	c := nodestatus.NewConditions(nodestatus.ConditionParts{
		Client: apitest.From(client), NodeName: at.node, Transition: time.Minute, Log: quiet(), Inherited: true,
		Owner: func(*corev1.Node) nodestatus.Owners { return nodestatus.OwnTypes.All() },
		Armed: func() bool { return false },
	})
	c.Set(0, nodestatus.Crossings{})
	c.Run(ctx)
}

// quiet returns an unused log; the outcome of a write is recorded elsewhere.
func quiet() *slog.Logger { return (&logcapture.Book{}).Logger() }

func (p *place) notice() podstatus.Notice {
	return podstatus.Notice{
		UID: string(p.pod.UID), Namespace: p.pod.Namespace, Name: p.pod.Name, Cause: "memory.available",
		Message: "The node was low on resource: memory. ", DisruptionTarget: true, Decided: time.Now(), ObservedGeneration: p.pod.Generation,
	}
}

func newReporter(client kubernetes.Interface, node string) *podstatus.Reporter {
	return podstatus.New(apitest.From(client), node, quiet(), func([]podstatus.PendingStatus) {}, podstatus.Options{})
}

func evicted(ctx context.Context, client kubernetes.Interface, own, at *place) {
	report(ctx, client, own, at.notice())
}

func aboveLimit(ctx context.Context, client kubernetes.Interface, own, at *place) {
	n := at.notice()
	n.DisruptionTarget, n.Cause = false, "emptyDir"
	report(ctx, client, own, n)
}

// report reports a status as before a kill. Its outcome is recorded.
func report(ctx context.Context, client kubernetes.Interface, own *place, n podstatus.Notice) {
	t := newReporter(client, own.node)
	t.Enqueue(n)
	_ = t.Evicted(ctx, n)
}

func evictedLate(ctx context.Context, client kubernetes.Interface, own, at *place) {
	newReporter(client, own.node).Run(ctx, []podstatus.PendingStatus{{Notice: at.notice(), Ended: true, Status: true}})
}

func soft(way string, ask func(podstatus.Soft, context.Context, podstatus.Notice, int64) (podstatus.Answer, error)) func(context.Context, kubernetes.Interface, *place, *place) {
	return func(ctx context.Context, client kubernetes.Interface, _, at *place) {
		s, err := podstatus.NewSoft(way, apitest.From(client))
		at.must(err)
		_, _ = ask(s, ctx, at.notice(), 30)
	}
}

func withdrawn(ctx context.Context, client kubernetes.Interface, _, at *place) {
	s, err := podstatus.NewSoft("status", apitest.From(client))
	at.must(err)
	_ = s.Withdraw(ctx, at.notice())
}

func announced(ctx context.Context, client kubernetes.Interface, own, at *place) {
	announce(ctx, client, own.node, at)
}

func announcedAsNeighbour(ctx context.Context, client kubernetes.Interface, _, at *place) {
	announce(ctx, client, at.node, at)
}

func announce(ctx context.Context, client kubernetes.Interface, by string, at *place) {
	t := newReporter(client, by)
	t.Announce(at.notice())
	t.Run(ctx, nil)
}

// events reports the same event several times.
func events(times int) func(context.Context, kubernetes.Interface, *place, *place) {
	return func(ctx context.Context, client kubernetes.Interface, _, at *place) {
		e := nodestatus.NewEvents(apitest.From(client), at.node, time.Minute)
		defer e.Close()
		for range times {
			e.Collection("FreeDiskSpaceFailed", "nothing to collect")
		}
		<-ctx.Done()
	}
}

func renewLease(ctx context.Context, client kubernetes.Interface, _, at *place) {
	h := heartbeat.New(heartbeat.Parts{
		Client: apitest.From(client), NodeName: at.node, Node: at.object, Period: time.Hour, Log: quiet(),
		Vitals: func() heartbeat.Vitals { return heartbeat.Vitals{Version: "test"} },
	})
	h.Beat(time.Now())
	h.Run(ctx)
}

func recordEviction(ctx context.Context, client kubernetes.Interface, _, at *place) {
	s := store.New(store.Parts{Client: apitest.From(client), Namespace: evictions, NodeName: at.node, Node: at.object, Log: quiet()})
	s.Add(&decisionlog.Record{Time: time.Now(), Decision: "evict", Pod: victims + "/" + at.pod.Name, UID: string(at.pod.UID)})
	s.Run(ctx, "")
}

func nodeHeartbeat(ctx context.Context, client kubernetes.Interface, _, at *place) {
	l := heartbeat.NewNodeLease(heartbeat.NodeLeaseParts{
		Client: apitest.From(client), NodeName: at.node, Node: at.object, Log: quiet(),
		Alive: func(time.Time) error { return nil },
	})
	_ = l.Run(ctx)
}
