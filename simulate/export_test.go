package simulate_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

// leak is the recording of a leak until a pod is evicted: a check every ten seconds. The agent has
// measured the pods in the last but one.
func leak(t testing.TB, pods ...*signals.Pod) []byte {
	t.Helper()
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: 300Mi}\nprotectedNamespaces: [kube-system]\nevictionPolicyNamespaces: ['*']\nenforceNodeAllocatable: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	effective, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	e := recording.NewEncoder(recording.Header{Version: "1.2.3", Node: "node-7", CgroupVersion: 2, Started: begun, Config: effective, State: []byte(`{"exact":true}`)})
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	checker := agent.NewRepeater(policy, c.Limits.Policy())
	for i, available := range []signals.Amount{900, 600, 290, 1200} {
		now := begun.Add(time.Duration(10*i) * time.Second)
		u := &recording.Usage{At: now}
		var candidates []signals.Candidate
		for j, p := range pods {
			if i == 3 && j == 0 {
				u.Gone = append(u.Gone, recording.Gone{Pod: p, End: recording.EndEvicted})
				continue
			}
			working := signals.Bytes(100+300*i*(1-j%2)) * mebi
			v := recording.PodUsage{Pod: p, Values: [recording.ValueCount]int64{recording.WorkingSet: int64(working), recording.Anon: int64(working), recording.Disk: recording.Unknown}}
			u.Pods = append(u.Pods, v)
			candidates = append(candidates, signals.Candidate{Pod: p, Usage: &signals.Usage{Memory: signals.Of(working), Processes: signals.Of[signals.PIDs](3)}})
		}
		var ok bool
		if data, ok = e.Usage(data, u); !ok {
			t.Fatal("not encoded")
		}
		s := signals.Snapshot{At: now.Add(time.Second)}
		s.Node[signals.MemoryAvailable] = signals.Observed(available*mebi, 4<<30, s.At)
		s.Node[signals.NodefsAvailable] = signals.Observed(90<<30, 100<<30, begun)
		o := checker.Repeat(&s, &agent.Trace{Measured: [][]signals.Candidate{candidates}, Seen: []signals.Observations{s.Node}})
		check := &recording.Check{Snapshot: s, Seq: uint64(i), Met: o.Verdict.GracePassed, Unknown: o.Verdict.Unknown, Conditions: o.Verdict.Conditions, StorageLimits: true}
		if evicted := o.Evicted; evicted != nil {
			check.Act = &recording.Act{Measured: [][]signals.Candidate{candidates}, Seen: []signals.Observations{s.Node}, Attempts: []recording.Attempt{{}}, Acted: true, Blocks: []string{"", ""},
				Evicted: &recording.Evicted{Pod: evicted.Pod, Cause: evicted.Cause, Hard: true, GracePeriod: 1, Message: evicted.Message, Annotations: evicted.Annotations, DisruptionTarget: true}}
			for j := range o.Ranking {
				check.Act.Ranking = append(check.Act.Ranking, o.Ranking[j].Pod)
			}
		}
		if data, ok = e.Check(data, check); !ok {
			t.Fatal("not encoded")
		}
	}
	return data
}

func podOf(name string) *signals.Pod {
	return &signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name, MemoryRequest: signals.Quantity{Text: "0"}, StorageRequest: signals.Quantity{Text: "0"}, Owner: "default/" + name}
}

func quantityOf(mib int64) signals.Quantity {
	return signals.Quantity{Value: signals.Amount(mib * mebi), Text: fmt.Sprintf("%dMi", mib)}
}

func exported(t *testing.T, data []byte) (text string, s *simulate.NodeScenario) {
	t.Helper()
	var out bytes.Buffer
	if err := simulate.ExportScenario(data, &out); err != nil {
		t.Fatal(err)
	}
	parsed, faults := simulate.Parse(out.Bytes())
	if err := faults.Err(); err != nil {
		t.Fatalf("%v in\n%.3000s", err, out.String())
	}
	s, is := parsed.(*simulate.NodeScenario)
	if !is {
		t.Fatalf("a scenario of type %T", parsed)
	}
	return out.String(), s
}

// The scenario of a recording decides as the agent did.
func TestExportScenario_DecidesAsRecorded(t *testing.T) {
	text, s := exported(t, leak(t, podOf("hog"), podOf("other")))
	var got []string
	if err := s.Run(func(step *simulate.Step, o *agent.Outcome, _ *eviction.Machine) error {
		line := fmt.Sprint(step.At, len(step.Usage), o.Verdict.Conditions.Names())
		if o.Evicted != nil {
			line += " " + o.Evicted.Pod.Key()
		}
		got = append(got, line)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0s 2 []", "10s 2 []", "20s 2 [MemoryPressure] default/hog", "30s 1 [MemoryPressure]"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q in\n%s", got, want, text)
	}
	for _, want := range []string{"node node-7, agent 1.2.3", `"remove":["default/hog"]`, `"processes":3`, `"time":"0s"`, `"protectedNamespaces":["kube-system"]`, "Not in it"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "stateFile") {
		t.Error("the scenario has options that do not decide")
	}
}

// A pod of a scenario has the facts that decide of the recorded one.
func TestExportScenario_KeepsPods(t *testing.T) {
	container := func(name string, init bool, memory, storage, limit int64) signals.Container {
		return signals.Container{Name: name, Init: init, MemoryRequest: quantityOf(memory), StorageRequest: quantityOf(storage), StorageLimit: quantityOf(limit)}
	}
	for about, change := range map[string]func(*signals.Pod){
		"nothing":  func(*signals.Pod) {},
		"critical": func(p *signals.Pod) { p.Priority, p.Protection = signals.CriticalPriority, signals.Critical },
		"static":   func(p *signals.Pod) { p.Protection = signals.Static },
		"mirror":   func(p *signals.Pod) { p.Protection = signals.Mirror },
		"own annotation": func(p *signals.Pod) {
			p.Protection = signals.OptedOut
		},
		"namespace": func(p *signals.Pod) {
			p.Namespace, p.Protection, p.Owner = "kube-system", signals.Namespaced, "kube-system/p"
		},
		"last, by rank": func(p *signals.Pod) { p.Last, p.EvictionPriority, p.Priority = true, -7, 5 },
		"owner, grace":  func(p *signals.Pod) { p.Owner, p.TerminationGracePeriod = "uid-of-owner", new(int64(7)) },
		"requests": func(p *signals.Pod) {
			p.Containers = []signals.Container{container("a", false, 100, 10, 20), container("init", true, 0, 0, 0)}
			p.MemoryRequest, p.StorageRequest, p.StorageLimit = quantityOf(100), quantityOf(10), new(quantityOf(20))
		},
		"sidecar and overhead": func(p *signals.Pod) {
			p.Containers = []signals.Container{container("a", false, 100, 0, 0), container("sidecar", true, 50, 0, 0)}
			p.MemoryRequest = quantityOf(157)
		},
		"unknown containers": func(p *signals.Pod) { p.MemoryRequest, p.StorageRequest = quantityOf(100), quantityOf(7) },
		"pod level": func(p *signals.Pod) {
			p.Containers = []signals.Container{container("a", false, 100, 0, 0)}
			p.PodLevelMemoryRequest, p.MemoryRequest = new(quantityOf(300)), quantityOf(300)
		},
		"volumes": func(p *signals.Pod) {
			p.Volumes = []signals.Volume{{Name: "local", Local: true, Directory: "kubernetes.io~empty-dir/local"}, {Name: "limited", Local: true, Directory: "kubernetes.io~empty-dir/limited", SizeLimit: quantityOf(5)},
				{Name: "memory", SizeLimit: quantityOf(6)}, {Name: "claim"}}
		},
	} {
		p := podOf("p")
		change(p)
		_, s := exported(t, leak(t, p))
		ignored := cmpopts.IgnoreFields(signals.Pod{}, "Containers")
		normal := cmp.Transformer("value", func(q signals.Quantity) signals.Amount { return q.Value })
		if diff := cmp.Diff(*p, s.Pods[0], ignored, normal, cmpopts.EquateEmpty()); diff != "" || len(s.Pods) != 1 {
			t.Errorf("%s: %s", about, diff)
		}
		if about != "unknown containers" {
			if diff := cmp.Diff(p.Containers, withoutUnknown(s.Pods[0].Containers), normal, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", about, diff)
			}
		}
	}
}

// withoutUnknown drops the container that stands for unknown ones.
func withoutUnknown(all []signals.Container) []signals.Container {
	if len(all) > 0 && all[0].Name == "unknown" {
		return all[1:]
	}
	return all
}

// Whatever an agent records is a valid scenario.
func TestExportScenario_IsValid(t *testing.T) {
	steps, evictions := 0, 0
	for seed := range uint64(6) {
		_, data := recordedWorld(t, seed, 2, 70*time.Second)
		var out bytes.Buffer
		err := simulate.ExportScenario(data, &out)
		if errors.Is(err, simulate.ErrTooManyData) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		parsed, faults := simulate.Parse(out.Bytes())
		if err := faults.Err(); err != nil {
			t.Fatalf("seed %d: %.2000v", seed, err)
		}
		s, _ := parsed.(*simulate.NodeScenario)
		steps += len(s.Steps)
		if err := s.Run(func(_ *simulate.Step, o *agent.Outcome, _ *eviction.Machine) error {
			if o.Evicted != nil {
				evictions++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if steps < 100 || evictions < 5 {
		t.Errorf("%d steps, %d evictions", steps, evictions)
	}
}

func TestExportScenario_Faults(t *testing.T) {
	if err := simulate.ExportScenario([]byte("no recording"), &bytes.Buffer{}); !errors.Is(err, recording.ErrNoChecks) {
		t.Errorf("got %v", err)
	}
}
