package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// A listCounter counts lists of sandboxes, with which the removal of a pod begins.
type listCounter struct {
	gc.Runtime // nil: no other method is called
	lists      atomic.Int64
}

func (a *listCounter) Sandboxes(context.Context) ([]cri.Sandbox, error) {
	a.lists.Add(1)
	return nil, nil
}

func (a *listCounter) Containers(context.Context) ([]cri.Container, error) { return nil, nil }

func (a *listCounter) Images(context.Context) ([]cri.Image, error) { return nil, nil }

// scraped returns the metrics as they are served.
func scraped(m *metrics.Metrics) string {
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.String()
}

// A decision that differs from the kubelet's is counted once, when it is reported.
func TestReporter_CountsSparedPods(t *testing.T) {
	lines := decisionlog.NewLines(io.Discard)
	defer lines.Close()
	r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{LinesDropped: lines.Lost})}
	memory := signals.MemoryAvailable.String()
	for _, d := range []*agent.Decision{
		{Decision: agent.NoneHelps, Signal: memory, Spared: 3, KubeletWouldEvict: "default/a"},
		{Decision: agent.NoneHelps, Signal: memory, Spared: 3, KubeletWouldEvict: "default/a", Repeated: agent.RepeatMeasured},
		{Decision: agent.Limited, LimitedBy: "quota", Signal: memory, Spared: 2}, // behind a pod that is limited
		{Decision: agent.Evicted, Signal: memory},
	} {
		r.Report(d)
	}
	page := scraped(r.metrics)
	for _, want := range []string{`plimsoll_pods_spared_total{eviction_signal="memory.available"} 5`, `plimsoll_eviction_choices_differ_total{eviction_signal="memory.available"} 1`} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("%s is not served", want)
		}
	}
}

// An eviction behind a limited pod has a limit, too. It is no begin of a limit.
func TestReporter_CountsBeginOfLimits(t *testing.T) {
	lines := decisionlog.NewLines(io.Discard)
	defer lines.Close()
	r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{LinesDropped: lines.Lost})}
	for _, verb := range []agent.Verb{agent.Limited, agent.SoftEvicting, agent.WouldEvict, agent.Evicted} {
		r.Report(&agent.Decision{Decision: verb, LimitedBy: "owner", Signal: signals.MemoryAvailable.String()})
	}
	if want := `plimsoll_evictions_limited_total{reason="owner"} 1`; !strings.Contains(scraped(r.metrics), want+"\n") {
		t.Errorf("%s is not served:\n%s", want, scraped(r.metrics))
	}
}

// The event follows once the consumers are known, and again when the signal is exhausted.
func TestReporter_EventNamesConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := apitest.NewFake(t, &corev1.Node{})
		lines := decisionlog.NewLines(io.Discard)
		defer lines.Close()
		r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{LinesDropped: lines.Lost}), arming: stateWithoutFile(false), events: nodestatus.NewEvents(apitest.From(fake), "n", time.Minute)}
		defer r.events.Close()
		data := []signals.Consumer{{Name: "/data", Kind: signals.ConsumerHostPath, Amount: 40 << 30, Pod: "default/writer"}}
		now := time.Now()
		for _, d := range []agent.Decision{
			{Decision: agent.NoneHelps, Reason: "at once"},
			{Decision: agent.NoneHelps, Reason: "why", Repeated: agent.RepeatMeasured, Consumers: data},
			{Decision: agent.NoneHelps, Reason: "flaps", Consumers: data},
			{Decision: agent.NoneHelps, Reason: "nothing left", Repeated: agent.RepeatUsedUp, Consumers: data},
			{Decision: agent.Ineffective, LimitedBy: "ineffective", Reason: "at once"},
			{Decision: agent.Ineffective, LimitedBy: "ineffective", Reason: "in vain", Repeated: agent.RepeatMeasured, Consumers: data},
		} {
			d.Signal, d.Time = "nodefs.available", now
			r.Report(&d)
			<-time.After(time.Second) // two events at one instant would share a name
		}
		list, err := fake.Clientset.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list.Items {
			got = append(got, e.Type+" "+e.Reason+" "+e.InvolvedObject.Kind+": "+e.Message)
		}
		want := []string{
			"Warning NoPodHelps Node: why; held by /data (mounted by default/writer) 40Gi",
			"Warning NoPodHelps Node: nothing left; held by /data (mounted by default/writer) 40Gi",
			"Warning EvictionsIneffective Node: in vain; held by /data (mounted by default/writer) 40Gi",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if want := `plimsoll_evictions_limited_total{reason="ineffective"} 1`; !strings.Contains(scraped(r.metrics), want+"\n") {
			t.Errorf("%s is not served: a limit counts once", want)
		}
	})
}

// A disarmed agent writes no event.
func TestReporter_NoEventWhileDisarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := apitest.NewFake(t, &corev1.Node{})
		lines := decisionlog.NewLines(io.Discard)
		defer lines.Close()
		r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(true), events: nodestatus.NewEvents(apitest.From(fake), "n", time.Minute)}
		defer r.events.Close()
		r.Report(&agent.Decision{Decision: agent.NoneHelps, Signal: "nodefs.available", Repeated: agent.RepeatMeasured})
		<-time.After(time.Second)
		if list, err := fake.Clientset.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// The metric is 1 from the check in which no pod helps to the one in which the threshold is not met, or
// a pod was evicted for it.
func TestReporter_MeasuresNoPodHelps(t *testing.T) {
	m := metrics.New(metrics.Settings{LinesDropped: func() int64 { return 0 }})
	r := &reporter{metrics: m}
	value := func(s signals.Signal) string {
		_, rest, _ := strings.Cut(scraped(m), `plimsoll_no_pod_helps{signal="`+s.String()+`"} `)
		text, _, _ := strings.Cut(rest, "\n")
		return text
	}
	disk, memory := eviction.Threshold{Signal: signals.NodefsAvailable}, eviction.Threshold{Signal: signals.MemoryAvailable}
	helpless := func(kind signals.Kind, t *eviction.Threshold) agent.Outcome {
		o := agent.Outcome{Snapshot: &signals.Snapshot{Kind: kind}, Spared: 1, Verdict: eviction.Verdict{Target: t}}
		o.Verdict.GracePassed.Add(t.Signal)
		return o
	}
	met := func(kind signals.Kind, all ...signals.Signal) *agent.Outcome {
		o := &agent.Outcome{Snapshot: &signals.Snapshot{Kind: kind}}
		for _, s := range all {
			o.Verdict.GracePassed.Add(s)
		}
		return o
	}
	both := helpless(signals.Periodic, &memory)
	both.Verdict.GracePassed.Add(disk.Signal)
	both.Passed = []agent.Outcome{helpless(signals.Periodic, &disk)}
	evicted := met(signals.Periodic, disk.Signal, memory.Signal)
	evicted.Verdict.Target, evicted.Evicted = &memory, &eviction.Eviction{}
	slow := met(signals.Periodic, memory.Signal) // the disk has not answered
	slow.Verdict.Unknown.Add(disk.Signal)
	for i, step := range []struct {
		outcome      *agent.Outcome
		disk, memory string
	}{
		{met(signals.Periodic), "", ""},
		{&both, "1", "1"},
		{met(signals.Periodic, disk.Signal, memory.Signal), "1", "1"}, // garbage is being collected
		{met(signals.Early), "1", "1"},                                // evaluates memory only
		{slow, "1", "1"},
		{evicted, "1", "0"},
		{met(signals.Periodic, memory.Signal), "0", "0"},
	} {
		r.recordHelpless(step.outcome)
		if gotDisk, gotMemory := value(disk.Signal), value(memory.Signal); gotDisk != step.disk || gotMemory != step.memory {
			t.Errorf("step %d: nodefs %q, memory %q, want %q, %q", i, gotDisk, gotMemory, step.disk, step.memory)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.recordHelpless(&both) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A soft eviction for a full disk respects grace period and budget: the layers are removed
// when the pod has ended.
func TestReporter_RemovesLayersWhenPodHasEnded(t *testing.T) {
	for _, tc := range []struct {
		about string
		hard  bool
		ends  *agent.Decision
		want  int64
	}{
		{"hard", true, nil, 1},
		{"soft, requested", false, nil, 0},
		{"soft, withdrawn", false, &agent.Decision{Decision: agent.Withdrawn}, 0},
		{"soft, failed", false, &agent.Decision{Decision: agent.SoftEnded, Failed: []agent.PodReason{{}}}, 0},
		{"soft, ended", false, &agent.Decision{Decision: agent.SoftEnded}, 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &listCounter{}
				log := slog.New(slog.DiscardHandler)
				c := config.NewAgent()
				c.GarbageCollection = "on"
				lines := decisionlog.NewLines(io.Discard)
				defer lines.Close()
				r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(false), beside: func(run func(context.Context)) { go run(t.Context()) }, garbage: &garbageCollector{
					kubelet: &kubeletDetector{config: c, log: log}, log: log, arming: stateWithoutFile(false),
					collector: gc.New(runtime, nil, noOwners{}, nil, log, gc.Options{}),
				}}
				cause := signals.NodefsAvailable.String()
				r.record(&agent.Outcome{Snapshot: &signals.Snapshot{}, Evicted: &eviction.Eviction{Pod: &signals.Pod{UID: "u"}, Cause: cause, Hard: tc.hard}})
				if tc.ends != nil {
					tc.ends.Signal, tc.ends.UID = cause, "u"
					r.Report(tc.ends)
				}
				synctest.Wait()
				if n := runtime.lists.Load(); n != tc.want {
					t.Errorf("the pod's containers were removed %d times, want %d", n, tc.want)
				}
			})
		})
	}
}

// A kill is measured until its processes have exited, also after it has returned.
func TestReporter_MeasuresSlowExits(t *testing.T) {
	for about, test := range map[string]struct {
		hard, acted, remain, reported bool
		exits                         time.Duration
		want                          string
	}{
		"hard":                     {true, true, true, true, 3 * time.Second, "_sum 3\n"},
		"hard, never ended":        {true, true, true, true, time.Hour, "_sum 60\n"},
		"hard, ended at once":      {true, true, false, false, time.Second, "_sum 0\n"}, // its decision has the time
		"hard, nothing reports it": {true, true, true, false, time.Second, "_sum 0\n"},
		"soft":                     {false, true, true, true, time.Second, "_sum 0\n"},
		"dry run":                  {true, false, false, false, time.Second, "_sum 0\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			rest := make(chan struct{})
			var result *agent.EvictionResult
			if test.acted {
				result = &agent.EvictionResult{ProcessesRemain: test.remain}
			}
			if test.reported {
				result.Rest = rest
			}
			m := metrics.New(metrics.Settings{LinesDropped: func() int64 { return 0 }})
			r := &reporter{metrics: m, beside: func(run func(context.Context)) { go run(t.Context()) }}
			r.awaitExit(&agent.Outcome{Snapshot: &signals.Snapshot{At: time.Now()}, Evicted: &eviction.Eviction{Hard: test.hard}, Result: result})
			<-time.After(test.exits)
			close(rest)
			synctest.Wait()
			if got := scraped(m); !strings.Contains(got, "plimsoll_eviction_exit_duration_seconds"+test.want) {
				t.Errorf("%s: want %q in\n%s", about, test.want, got)
			}
		})
	}
}
