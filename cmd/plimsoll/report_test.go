package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport_Incident(t *testing.T) {
	dir, begun := recorded(t)
	data, err := os.ReadFile(filepath.Join(dir, "0000000001.segment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"--recording=" + dir, []string{"<!DOCTYPE html>", "Incident on node <bdi>node-7</bdi>", "60 periodic, 0 early"}},
		{"-o md --recording=-", []string{"# Incident on node `node-7`", "60 periodic, 0 early", "No recorded check was below a threshold."}},
		{"-o svg --recording=" + filepath.Join(dir, "0000000001.segment"), []string{"<svg xmlns=", "Checks: 60 periodic"}},
		{"-o md --since=30m --recording=" + dir, []string{"29 periodic, 0 early"}},
		{"-o md --begin=30m --end=" + begun.Add(40*time.Minute+time.Second).Format(time.RFC3339Nano) + " --recording=" + dir, []string{"10 periodic, 0 early"}},
	} {
		status, out, errs := plimsoll(string(data), append([]string{"report", "incident"}, strings.Fields(tc.args)...)...)
		for _, part := range tc.want {
			if status != 0 || errs != "" || !strings.Contains(out, part) {
				t.Errorf("%s: status %d, %s, no %q in %.2000s", tc.args, status, errs, part, out)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "incident.html")
	status, out, errs := plimsoll("", "report", "incident", "--recording="+dir, "--file="+file)
	written, err := os.ReadFile(file)
	if status != 0 || out != "" || errs != "" || err != nil || !strings.HasPrefix(string(written), "<!DOCTYPE html>") {
		t.Errorf("to a file: status %d, %s%s, %v, %.100s", status, errs, out, err, written)
	}
}

func TestReport_ExitStatus(t *testing.T) {
	dir, _ := recorded(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"report", exitInvalid, "needs a command"},
		{"report incident extra", exitInvalid, "takes no arguments"},
		{"report incident -o pdf --recording=" + dir, exitInvalid, "must be html, md or svg"},
		{"report incident --since=-1h --recording=" + dir, exitInvalid, "--since: -1h0m0s: must be at least 0"},
		{"report incident --since=soon --recording=" + dir, exitInvalid, "--since"},
		{"report incident --since=1h --end=5m --recording=" + dir, exitInvalid, "--since stands for --begin and --end"},
		{"report incident --begin=later --recording=" + dir, exitInvalid, `--begin: "later": must be a time`},
		{"report incident --begin=5m --end=10m --recording=" + dir, exitInvalid, "is before --begin"},
		{"report incident --recording=" + text, exitInvalid, "no frame of a recording is readable"},
		{"report incident --recording=" + dir + "/none", exitFailed, "no such file"},
		{"report incident --end=100h --recording=" + dir, exitFailed, "nothing is recorded in this time"},
		{"report incident --file=" + text + "/below --recording=" + dir, exitFailed, "write the report"},
	} {
		status, out, errs := plimsoll("", strings.Fields(tc.args)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d, %s%s, want %d and %q", tc.args, status, errs, out, tc.status, tc.want)
		}
	}
}
