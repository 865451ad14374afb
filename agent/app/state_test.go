package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
	"plimsoll.dev/plimsoll/test/harness/statefile"
)

// goldenBoot is the boot ID of the files in testdata.
const goldenBoot = "0f7bd3f0-6c6d-4f0e-8d7e-0c8c1b1f7a11"

// openTestState opens a state file with that text. The caller closes it.
func openTestState(t *testing.T, text string) (s *checkpoint.Sections, notice, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, notice = statefile.Open(t, checkpoint.SystemClock(), path, goldenBoot)
	return s, notice, path
}

func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkGolden compares everything that an agent loads with testdata.
func checkGolden(t *testing.T, s *checkpoint.Sections, book *logcapture.Book) {
	t.Helper()
	log, at := book.Logger(), time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for what, pair := range map[string][2]any{
		"decisions": {loadSection[eviction.Saved](s, decisionsSection, "lost", log), eviction.Saved{
			Thresholds: []eviction.SavedThreshold{{Threshold: "memory.available<500Mi for 1m30s", FirstObserved: at, ReclaimApplies: true}},
			Conditions: []eviction.SavedCondition{{Condition: "MemoryPressure", True: true, LastMet: at.Add(time.Second)}},
			Unknown:    []eviction.SavedUnknown{{Signal: "nodefs.available", Since: at}},
		}},
		"limiter": {loadSection[limiter.Saved](s, limiterSection, "lost", log), limiter.Saved{
			Evictions: []time.Time{at}, Conditions: []limiter.SavedCondition{{Condition: "MemoryPressure", Ineffective: 1, Limits: 1, Until: at.Add(time.Minute)}},
			Owners: []limiter.SavedOwner{{Owner: "o", Evictions: []time.Time{at}, Waits: 1, Until: at.Add(time.Minute)}},
		}},
		"pending statuses": {loadPendingStatuses(s, log), []podstatus.PendingStatus{
			{Notice: podstatus.Notice{UID: "u1", Namespace: "ns", Name: "a", Cause: "memory.available", Message: "m", Annotations: map[string]string{"k": "v"}, DisruptionTarget: true, Decided: at, Killed: []string{"c1"}, ObservedGeneration: 2}, Ended: true, Status: true, Event: true},
			{Notice: podstatus.Notice{UID: "u2", Namespace: "ns", Name: "b", Cause: "nodefs.available", Message: "m2", Decided: at}, Event: true, Again: true},
		}},
		"arming": {loadArming(s, log), arming.Memory{All: arming.Source{Setting: "armed", Accepted: "x"}, Node: arming.Source{Setting: "disarmed"}, Findings: arming.Findings{Known: true, Errors: []string{"e"}}, Acted: true}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v, want %+v", what, pair[0], pair[1])
		}
	}
	var pods []signals.Pod
	if err := s.Load(podsSection, &pods); err != nil || len(pods) != 2 || pods[0].Containers[0].ID != "c1" || pods[1].Protection != signals.Static {
		t.Errorf("pods: %+v, %v", pods, err)
	}
	if n := book.Count("level="); n > 0 {
		t.Errorf("%d log lines, want none", n)
	}
}

// A golden file was written by an agent of that version. It is never changed: each version
// has its own file.
func TestState_OlderVersionsAreMigrated(t *testing.T) {
	for _, name := range []string{"state-v4.json", "state-v3.json"} {
		s, _, _ := openTestState(t, golden(t, name))
		defer s.Close()
		checkGolden(t, s, &logcapture.Book{})
	}
	s, notice, path := openTestState(t, golden(t, "state-v2.json"))
	checkGolden(t, s, &logcapture.Book{})
	if !strings.Contains(notice, "continuing") {
		t.Errorf("%q", notice)
	}
	s.Save("more", 1)
	statefile.Finish(t, s)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"version": 4`) {
		t.Fatalf("%v\n%s", err, text)
	}
	again, _, _ := openTestState(t, string(text)) // with the sections that were not saved again
	defer again.Close()
	checkGolden(t, again, &logcapture.Book{})

	first := `{"version": 1, "bootID": "` + goldenBoot + `", "saved": "2026-11-20T10:00:00Z", "state": {"conditions": [{"condition": "DiskPressure", "true": true, "lastMet": "2026-11-20T10:00:00Z"}]}}`
	s, _, _ = openTestState(t, first)
	defer s.Close()
	if d := loadSection[eviction.Saved](s, decisionsSection, "lost", (&logcapture.Book{}).Logger()); len(d.Conditions) != 1 || !d.Conditions[0].True {
		t.Errorf("version 1: %+v", d)
	}
}

// The example in the documents explains the file to operators.
func TestState_DocumentedExampleIsCurrent(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "state-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "```json\n")
	example, _, _ := strings.Cut(section, "```")
	type file struct {
		Version *int
		Clock   map[string]any
		State   map[string]any
	}
	var current, shown file
	if err := json.Unmarshal([]byte(golden(t, "state-v4.json")), &current); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(example), &shown); err != nil || shown.Version == nil {
		t.Fatalf("the example is not a state file: %v\n%s", err, example)
	}
	if *shown.Version != *current.Version || len(shown.Clock) != len(current.Clock) || len(shown.State) != len(current.State) {
		t.Errorf("the example is of version %d with a clock of %d fields and %d sections, the program's of %d with %d and %d",
			*shown.Version, len(shown.Clock), len(shown.State), *current.Version, len(current.Clock), len(current.State))
	}
	for name := range current.State {
		if _, there := shown.State[name]; !there {
			t.Errorf("the example has no section %s", name)
		}
	}
	s, notice, _ := openTestState(t, strings.Replace(example, "d92db08c-2de2-49ae-9712-9e3543189331", goldenBoot, 1))
	defer s.Close()
	saved := loadSection[eviction.Saved](s, decisionsSection, "lost", (&logcapture.Book{}).Logger())
	if !strings.Contains(notice, "continuing") || len(saved.Thresholds) == 0 || len(saved.Conditions) == 0 {
		t.Errorf("the example is read as %+v: %s", saved, notice)
	}
}

func TestState_LaterVersionIsReadPartially(t *testing.T) {
	text := strings.Replace(golden(t, "state-v4.json"), `"version": 4`, `"version": 9, "later": [1]`, 1)
	s, notice, path := openTestState(t, text)
	defer s.Close()
	checkGolden(t, s, &logcapture.Book{})
	if !strings.Contains(notice, "version 9") || !strings.Contains(notice, path+".later") {
		t.Errorf("%q", notice)
	}
	if kept, err := os.ReadFile(path + ".later"); err != nil || string(kept) != text {
		t.Errorf("the later version's file was not preserved: %v", err)
	}

	// Fields with another type in the later version.
	book := &logcapture.Book{}
	text = strings.NewReplacer(
		`"acted": true`, `"acted": {"since": 1}`, // of a threshold, and of arming
		`"ended": true`, `"ended": "yes"`, // of the first pending status
		`"uid": "u2"`, `"uid": 7`, // of the second one
	).Replace(text)
	s, _, _ = openTestState(t, text)
	defer s.Close()
	if d := loadSection[eviction.Saved](s, decisionsSection, "lost", book.Logger()); len(d.Thresholds) != 1 || d.Thresholds[0].FirstObserved.IsZero() || len(d.Conditions) != 1 || len(d.Unknown) != 1 {
		t.Errorf("decisions: %+v", d)
	}
	pending := loadPendingStatuses(s, book.Logger())
	if len(pending) != 1 || pending[0].Notice.UID != "u1" || !pending[0].Status || pending[0].Ended {
		t.Errorf("pending statuses: %+v", pending)
	}
	if book.Count("Cannot read a pending") != 1 || book.Count("m2") != 1 {
		t.Error("an unreadable pending status is not logged")
	}
	inputs := arming.Inputs{Memory: loadArming(s, book.Logger())}
	inputs.Node = arming.Source{}
	if v := inputs.Decide(); v.State != arming.Disarmed {
		t.Errorf("partially read arming state: %+v, want disarmed", v)
	}
}

// The agent ends, the time of day is set, and the next agent starts 5 s later.
func TestState_ClockChangeEndsNoGracePeriod(t *testing.T) {
	for _, set := range []time.Duration{0, time.Hour, -time.Hour} {
		path, begun := filepath.Join(t.TempDir(), "state.json"), time.Now()
		sections := func(passed, set time.Duration) *checkpoint.Sections {
			s, _ := statefile.Open(t, checkpoint.Clock{
				Now:       func() time.Time { return begun.Add(passed + set) },
				SinceBoot: func() (time.Duration, error) { return 90*time.Hour + passed, nil },
			}, path, "boot")
			return s
		}
		first := sections(0, 0)
		saved := eviction.Saved{
			Thresholds: []eviction.SavedThreshold{{Threshold: "t", FirstObserved: begun.Add(30 * time.Second)}},
			Conditions: []eviction.SavedCondition{{Condition: "MemoryPressure", True: true, LastMet: begun.Add(30 * time.Second)}},
			Unknown:    []eviction.SavedUnknown{{Signal: "nodefs.available", Since: begun.Add(30 * time.Second)}},
		}
		limits := limiter.Saved{Evictions: []time.Time{begun.Add(30 * time.Second)}, Conditions: []limiter.SavedCondition{{Until: begun.Add(30 * time.Second)}},
			Owners: []limiter.SavedOwner{{Evictions: []time.Time{begun.Add(30 * time.Second)}, Until: begun.Add(30 * time.Second)}}}
		(&reporter{state: first}).Save(saved)
		(&app{state: first}).saveLimiter(limits)
		statefile.Finish(t, first)

		second := sections(65*time.Second, set)
		now, log := begun.Add(65*time.Second+set), (&logcapture.Book{}).Logger()
		is := loadSection[eviction.Saved](second, decisionsSection, "lost", log).At(second.Moment)
		r := loadSection[limiter.Saved](second, limiterSection, "lost", log).At(second.Moment)
		statefile.Finish(t, second)
		for what, at := range map[string]time.Time{
			"a threshold": is.Thresholds[0].FirstObserved, "a condition": is.Conditions[0].LastMet, "a signal": is.Unknown[0].Since,
			"an eviction": r.Evictions[0], "a limit": r.Conditions[0].Until, "an owner's eviction": r.Owners[0].Evictions[0], "an owner's limit": r.Owners[0].Until,
		} {
			if age := now.Sub(at).Round(time.Millisecond); age != 35*time.Second {
				t.Errorf("the clock was set by %s: %s is %s old, not 35s", set, what, age)
			}
		}
	}
}

// soft returns a setting for the signal memory.available.
func soft(text string) options.Map {
	return options.Map{Set: true, Settings: []options.Setting{{Key: "memory.available", Text: text}}}
}

// By the time since boot, an agent found a threshold met a minute ago. Since then the time of
// day was set forward by an hour.
func TestState_GracePeriodContinuesAfterRestart(t *testing.T) {
	c := config.NewAgent()
	c.EvictionSoft, c.EvictionSoftGracePeriod = soft("500Mi"), soft("10m")
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	low := signals.Observations{signals.MemoryAvailable: {Known: true, Available: 400 << 20, Capacity: 8 << 30, Time: now}}
	machine, then := eviction.New(policy), now.Add(-61*time.Minute).Round(0)
	before := low
	before[signals.MemoryAvailable].Time = then
	machine.Evaluate(&signals.Snapshot{At: then, Kind: signals.Periodic, Node: before})
	decisions, err := json.Marshal(machine.Save())
	if err != nil {
		t.Fatal(err)
	}
	for clock, ends := range map[string]bool{
		"": true, // older versions: by the time of day the grace period is over
		fmt.Sprintf(`"clock": {"wall": %q, "sinceBootNanos": %d},`, then.Format(time.RFC3339Nano), 89*time.Minute): false,
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		text := fmt.Sprintf(`{"version": 3, "bootID": "boot", %s "state": {"decisions": %s}}`, clock, decisions)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sections, _ := statefile.Open(t, checkpoint.Clock{Now: time.Now, SinceBoot: func() (time.Duration, error) { return 90 * time.Minute, nil }}, path, "boot")
		v := restoredMachine(policy, sections, (&logcapture.Book{}).Logger()).Evaluate(&signals.Snapshot{At: now.Add(time.Second), Kind: signals.Periodic, Node: low})
		statefile.Finish(t, sections)
		if (v.Target != nil) != ends {
			t.Errorf("clock %q: the verdict is %+v", clock, v)
		}
	}
}

// restart returns an app with the state file of an earlier one.
func restart(t *testing.T, path string, log *slog.Logger) *app {
	t.Helper()
	sections, _ := statefile.Open(t, checkpoint.SystemClock(), path, "boot")
	c := config.NewAgent()
	c.EvictionsPerHour = 1
	return &app{config: c, state: sections, log: log}
}

func TestState_LimiterSurvivesRestart(t *testing.T) {
	book, path, now := &logcapture.Book{}, filepath.Join(t.TempDir(), "state.json"), time.Now()
	first := restart(t, path, book.Logger())
	r := first.openLimiter(first.config.Limits.Policy(), now)
	if r.Spent("ns", false, now).By != limiter.None {
		t.Fatal("a new agent has a limit")
	}
	r.Evicted("ns", "owner", now)
	first.saveLimiter(r.Save())
	statefile.Finish(t, first.state)
	second := restart(t, path, book.Logger())
	if limit := second.openLimiter(second.config.Limits.Policy(), now).Spent("ns", false, now); limit.By != limiter.Quota || limit.Until.Sub(now) != time.Hour {
		t.Errorf("after a restart: %+v", limit)
	}
	second.state.Save(limiterSection, "not a limiter section")
	statefile.Finish(t, second.state)
	third := restart(t, path, book.Logger())
	defer third.state.Close()
	if third.openLimiter(third.config.Limits.Policy(), now).Spent("ns", false, now).By != limiter.None || book.Count("of the last hour are lost") != 1 {
		t.Error("an invalid section was used, or not logged")
	}
}
