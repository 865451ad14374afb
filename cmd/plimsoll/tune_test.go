package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/recording/ring"
)

func TestTune_Forms(t *testing.T) {
	agent, _ := recorded(t)
	dir, _ := trialDir(t)
	data, err := os.ReadFile(filepath.Join(agent, "0000000001.segment"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.recording")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{agent, []string{"Hard thresholds of memory.available: 12 compared, over 1 recording of 1 node", "50Mi         0          0                0s\n", "2Gi   ", "as recorded  0", "Assumed:", "node node-7, checks: 60"}},
		{"--values=100Mi,5% " + agent + " " + file, []string{"2 compared, over 2 recordings of 1 node", "\n5%  "}},
		{"--values=100Mi --all --exhaustion=time " + file + " " + filepath.Join(dir, "nodes", "node-7"), []string{"on the front", "against time exhausted"}},
		{"--values=1Gi..8Gi --steps=4 -o csv " + agent, []string{"threshold,front,evictionsLower", "\n4Gi,true,0,0,0,0,0,0\n"}},
		{"--signal=allocatableMemory.available --values=100Mi -o yaml " + agent, []string{"kind: ThresholdTuning\n", "signal: allocatableMemory.available\n", "threshold: 100Mi\n"}},
	} {
		status, out, errs := plimsoll("", append([]string{"tune"}, strings.Fields(tc.args)...)...)
		for _, part := range tc.want {
			if status != 0 || errs != "" || !strings.Contains(out, part) {
				t.Errorf("%s: status %d, %s, no %q in %.3000s", tc.args, status, errs, part, out)
			}
		}
	}
	written := filepath.Join(t.TempDir(), "thresholds.json")
	status, out, errs := plimsoll("evictionHard: {memory.available: 1Gi}\napiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\n", "tune", "-o", "json", "--config=-", "--values=100Mi", "-f", written, agent)
	text, err := os.ReadFile(written)
	var d struct {
		Points []struct {
			Threshold  string
			Front      bool
			Evictions  struct{ Lower, Upper int }
			Recordings []any
		}
	}
	if status != 0 || out != "" || errs != "" || err != nil || json.Unmarshal(text, &d) != nil || len(d.Points) != 1 || !d.Points[0].Front || len(d.Points[0].Recordings) != 1 {
		t.Errorf("to a file: status %d, %s%s, %v, %s", status, errs, out, err, text)
	}
}

func TestTune_ExitStatus(t *testing.T) {
	agent, _ := recorded(t)
	segments, err := ring.List(agent)
	if err != nil {
		t.Fatal(err)
	}
	data, err := segments[0].Read()
	if err != nil {
		t.Fatal(err)
	}
	bad := t.TempDir()
	damaged := bytes.Clone(data)
	damaged[len(data)/2]++
	for name, text := range map[string][]byte{"text.recording": []byte("none"), "lines.jsonl": []byte("{}\n"), "agent/0000000001.segment": data, "agent/0000000002.segment": damaged} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(bad, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bad, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"", exitInvalid, "none was given"},
		{"-o pdf " + agent, exitInvalid, "must be text, json, yaml or csv"},
		{"--signal=nodefs.available " + agent, exitInvalid, "a replay changes memory alone"},
		{"--signal=cpu " + agent, exitInvalid, "--signal: unsupported eviction signal"},
		{"--values=much " + agent, exitInvalid, "must be a quantity or a percentage"},
		{"--values=2Gi..1Gi " + agent, exitInvalid, "--values: "},
		{"--exhaustion=pods " + agent, exitInvalid, "must be nodes or time"},
		{"--config=" + bad + "/text.recording " + agent, exitInvalid, "text.recording: "},
		{"--config=" + bad + "/none " + agent, exitFailed, "read the configuration"},
		{bad + "/none", exitFailed, "no such file"},
		{bad + "/lines.jsonl", exitFailed, "no recording is among the 1 files"},
		{bad + "/text.recording", exitInvalid, "text.recording: at byte 0: no frame of a recording is readable"},
		{bad + "/agent", exitInvalid, "0000000002.segment: at byte "},
		{"--file=" + bad + "/none/x " + agent, exitFailed, "write the comparison"},
	} {
		status, out, errs := plimsoll("", append([]string{"tune"}, strings.Fields(tc.args)...)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d, %s%s, want %d and %q", tc.args, status, errs, out, tc.status, tc.want)
		}
	}
	if status, out, errs := plimsoll("", "tune", "--allow-damage", bad+"/agent"); status != 0 || errs != "" || !strings.Contains(out, "over 1 recording of 1 node") {
		t.Errorf("with damage: status %d, %s%s", status, errs, out)
	}
}
