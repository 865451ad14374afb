package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// The record of an eviction follows its decisions, and no other decision is recorded.
func TestReporter_RecordsEvictions(t *testing.T) {
	freed, grace, exit := int64(5), int64(30), 3.0
	of := func(v agent.Verb, change func(*agent.Decision)) agent.Decision {
		d := agent.Decision{Decision: v, Pod: "shop/a", UID: "a"}
		if change != nil {
			change(&d)
		}
		return d
	}
	soft := of(agent.SoftEvicting, func(d *agent.Decision) { d.Grace = &grace })
	for about, test := range map[string]struct {
		decisions []agent.Decision
		want      []string
	}{
		"hard": {[]agent.Decision{of(agent.Evicted, nil), of(agent.ReclaimDone, func(d *agent.Decision) { d.Reason, d.FreedBytes = "recovered", &freed })},
			[]string{"evict recovered freed 5"}},
		"soft": {[]agent.Decision{soft, of(agent.SoftEnded, func(d *agent.Decision) { d.ExitTime, d.Processes = &exit, 2 })},
			[]string{"soft-evict ended processes 2"}},
		"soft, freed": {[]agent.Decision{soft, of(agent.SoftEnded, nil), of(agent.ReclaimDone, func(d *agent.Decision) { d.Reason = "freed" })},
			[]string{"soft-evict freed"}},
		"soft, escalated, freed": {[]agent.Decision{soft, of(agent.Escalated, func(d *agent.Decision) { d.Reason = "met" }), of(agent.SoftEnded, nil), of(agent.ReclaimDone, func(d *agent.Decision) { d.Reason = "freed" })},
			[]string{"soft-evict escalated: met; freed"}},
		"hard, and the wait for another signal ends": {[]agent.Decision{of(agent.Evicted, func(d *agent.Decision) { d.Signal = "memory.available" }),
			of(agent.ReclaimDone, func(d *agent.Decision) { d.Signal, d.Reason, d.FreedBytes = "nodefs.available", "freed", &freed })}, []string{"evict"}},
		"a wait that ends after the record": {[]agent.Decision{soft, of(agent.Withdrawn, nil), of(agent.ReclaimDone, func(d *agent.Decision) { d.Reason = "disarmed" })}, []string{"soft-evict withdrawn"}},
		"soft, failed":                      {[]agent.Decision{soft, of(agent.SoftEnded, func(d *agent.Decision) { d.Failed = []agent.PodReason{{Pod: "shop/a"}} })}, []string{"soft-evict not ended"}},
		"soft, withdrawn":                   {[]agent.Decision{soft, of(agent.Withdrawn, nil)}, []string{"soft-evict withdrawn"}},
		"soft, escalated":                   {[]agent.Decision{soft, of(agent.Escalated, func(d *agent.Decision) { d.Reason = "met" })}, []string{"soft-evict escalated: met"}},
		"soft, killed for another threshold": {[]agent.Decision{soft, of(agent.Evicted, nil), of(agent.Withdrawn, nil)},
			[]string{"evict"}},
		"others": {[]agent.Decision{of(agent.WouldEvict, nil), of(agent.Failed, nil), of(agent.NoneHelps, nil), of(agent.ReclaimDone, nil)}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			fake := apitest.NewFake(t, node)
			lines := decisionlog.NewLines(io.Discard)
			defer lines.Close()
			m := metrics.New(metrics.Settings{LinesDropped: lines.Lost})
			r := &reporter{lines: lines, metrics: m, arming: stateWithoutFile(false), beside: func(func(context.Context)) {},
				evictions: store.New(store.Parts{Client: apitest.From(fake), Namespace: "ns", NodeName: "n", Node: func() *corev1.Node { return node },
					Log: slog.New(slog.DiscardHandler), Unwritten: saveUnwritten(nil, m.PendingEvictionRecords)})}
			ctx, cancel := context.WithCancel(t.Context())
			a := &app{reporter: r, log: slog.New(slog.DiscardHandler)}
			a.runEvictionRecords(ctx, "")
			cancel() // the loop ends later
			synctest.Wait()
			for i, d := range test.decisions {
				d.Time = time.Now().Add(time.Duration(i) * time.Second)
				r.Report(&d)
			}
			a.close()
			var got []string
			object, err := fake.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), "ns", "n")
			if written, is := object.(*corev1.ConfigMap); err == nil && is {
				records, _ := evictionlog.Parse(written.Data[store.Key]).Records()
				for _, e := range records {
					got = append(got, summaryOf(&e))
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: recorded %q, want %q", about, got, test.want)
			}
		})
	}
}

func summaryOf(r *decisionlog.Record) string {
	text := string(r.Decision)
	if r.End != "" {
		text += " " + r.End
	}
	if r.FreedBytes != nil {
		text += fmt.Sprintf(" freed %d", *r.FreedBytes)
	}
	if r.Processes > 0 {
		text += fmt.Sprintf(" processes %d", r.Processes)
	}
	return text
}
