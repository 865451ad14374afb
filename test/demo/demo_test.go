package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	os.Exit(m.Run())
}

// output is a file in place of stdout, no terminal.
func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestRun_EvictsTheLeakingPod(t *testing.T) {
	sandbox.Need(t)
	binary, err := trial.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	written := func(o options) string {
		to := output(t)
		o.plimsoll, o.limit, o.color = binary, "512", "auto"
		if err := run(t.Context(), to, o); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(to.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	records := filepath.Join(t.TempDir(), "recording")
	text := written(options{rate: "40MiB", output: "text", period: 10 * time.Second, records: records})
	for _, want := range []string{"⊖", "✗ 1. jobs/leaky", "✓ jobs/leaky evicted", "✓ still running: shop/web, shop/db, jobs/batch", "✓ OOM kills by the kernel: 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r{") {
		t.Errorf("control characters or JSON in the text of a file:\n%q", text)
	}
	checkReplay(t, binary, records)
	var r result
	if err := json.Unmarshal([]byte(written(options{rate: "40MiB", output: "json", period: 10 * time.Second})), &r); err != nil {
		t.Fatalf("with -o json: %v", err)
	}
	if r.Evicted != "jobs/leaky" || !slices.Equal(r.Survivors, []string{"shop/web", "shop/db", "jobs/batch"}) || r.Exit <= 0 || r.AvailableAfter < threshold {
		t.Errorf("result %+v", r)
	}
}

// checkReplay checks that the recorded checks decide the same again.
func checkReplay(t *testing.T, binary, records string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), binary, "simulate", "--recording", records).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "EVICT jobs/leaky") || !strings.HasSuffix(strings.TrimSpace(string(text)), " decide the same, 0 otherwise") {
		t.Errorf("plimsoll simulate: %v\n%s", err, text)
	}
}

func TestRun_RefusesInvalidOptions(t *testing.T) {
	for _, o := range []options{
		{rate: "150MiB", limit: "300MiB", color: "auto", output: "text"},
		{rate: "150MiB", limit: "4GiB", color: "auto", output: "text"},
		{rate: "slow", limit: "512MiB", color: "auto", output: "text"},
		{rate: "1KiB", limit: "512MiB", color: "auto", output: "text"},
		{rate: "150MiB", limit: "512MiB", color: "blue", output: "text"},
		{rate: "150MiB", limit: "512MiB", color: "auto", output: "yaml"},
	} {
		if err := run(t.Context(), output(t), o); err == nil || !strings.Contains(err.Error(), "use") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSooner_UsesObservationOfSlowMachine(t *testing.T) {
	for _, c := range []struct{ measured, observed, want time.Duration }{
		{0, 300, 300}, {10, 300, 10}, {300, 10, 10},
	} {
		if got := sooner(c.measured, c.observed); got != c.want {
			t.Errorf("sooner(%d, %d) = %d, want %d", c.measured, c.observed, got, c.want)
		}
	}
}

func TestVerdict_NamesTheFault(t *testing.T) {
	for _, c := range []struct {
		name string
		r    result
		want string
	}{
		{"the leaking pod alone", result{Evicted: "jobs/leaky"}, ""},
		{"another pod", result{Evicted: "shop/db"}, "another pod"},
		{"one more pod", result{Evicted: "jobs/leaky", Lost: []string{"shop/db"}}, "another pod"},
		{"the kernel", result{Evicted: "jobs/leaky", OOMKills: 1}, "OOM killer"},
	} {
		switch err := c.r.verdict("jobs/leaky"); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
