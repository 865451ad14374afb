package catalogue

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// TestIncidents_CoverThePatterns counts the patterns of the catalogue of public incidents, and the kinds
// of expectations.
func TestIncidents_CoverThePatterns(t *testing.T) {
	all, err := Incidents("")
	if err != nil {
		t.Fatal(err)
	}
	patterns := map[int]bool{}
	nobody, outside, real := 0, 0, 0
	for _, i := range all {
		for _, p := range i.Patterns {
			patterns[p] = true
		}
		if !i.Expect.Exhausts {
			nobody++
		}
		if len(i.System) > 0 {
			outside++
		}
		if i.Pods[len(i.Pods)-1].Processes[0].Command != nil {
			real++
		}
		if len(i.Reenacts) == 0 || i.Hash == "" {
			t.Errorf("%s names no public incident", i.Name)
		}
		if i.Settle <= spec.MaxPhase {
			t.Errorf("%s ends %v after the expected ends: a contestant's next check may come %v later", i.Name, i.Settle, spec.MaxPhase)
		}
	}
	if len(patterns) < 15 || nobody < 5 || outside < 3 || real < 3 {
		t.Errorf("%d patterns, %d in which nobody may end, %d with a daemon, %d with real programs: want at least 15, 5, 3, 3", len(patterns), nobody, outside, real)
	}
}

func TestContestants_SayWhatTheyNeed(t *testing.T) {
	all, err := Contestants("")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range all {
		names[c.Name] = true
		if len(c.Programs) > 0 && len(c.Needs) == 0 {
			t.Errorf("%s needs nothing: how is its program found?", c.Name)
		}
		if len(c.Programs) > 0 && c.Documented == "" {
			t.Errorf("%s does not name the documentation of its configuration", c.Name)
		}
	}
	for _, want := range []string{"kernel", "earlyoom", "systemd-oomd", "systemd-oomd-1s", "oomd", "nohang", "loop-100ms", "kubelet", "plimsoll", "plimsoll-beside-kubelet"} {
		if !names[want] {
			t.Errorf("there is no contestant %s", want)
		}
	}
}

func TestIncidents_ReadsFiles(t *testing.T) {
	dir := t.TempDir()
	text, err := files.ReadFile("incidents/dips.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte(strings.Replace(string(text), "name: dips", "name: mine", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, append(text, "wrong: 1\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, spec.MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Incidents("dips," + mine)
	if err != nil || len(all) != 2 || all[1].Name != "mine" || all[0].Hash == all[1].Hash {
		t.Fatalf("got %d incidents, %v", len(all), err)
	}
	for list, want := range map[string]string{
		"nothing": "use agent-tool-call", bad: "wrong: unknown field", large: "too large", "dips,dips": "two incidents have the name dips", "./none.yaml": "no such file",
	} {
		if _, err := Incidents(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Incidents(%s): %v, want %s", list, err, want)
		}
	}
}

func TestNames_AreSorted(t *testing.T) {
	for _, kind := range []string{"incidents", "contestants"} {
		all, err := names(kind)
		if err != nil || !slices.IsSorted(all) || len(all) == 0 {
			t.Errorf("%s: %v, %v", kind, all, err)
		}
	}
}
