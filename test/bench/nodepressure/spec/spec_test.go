package spec

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

const incidentText = `name: some
title: A title
reenacts: [{what: it grew, reference: "x/y#1"}]
duration: 10s
pods:
  - name: hog
    processes:
      - steps: [{grow: 300%, at: max}]
expect: {exhausts: true, mayKill: [hog], needed: 1, cause: one pod}
`

const contestantText = `name: some
title: A title
arenas: [cgroup]
sees: [node]
programs:
  - name: one
    command: [run, "--node={{node}}", "{{scratch}}/x"]
    ready: {line: ^ready}
`

func TestParseIncident_SetsDefaults(t *testing.T) {
	got, err := ParseIncident([]byte(incidentText))
	if err != nil {
		t.Fatal(err)
	}
	want := Incident{
		Name: "some", Title: "A title", Reenacts: []Source{{"it grew", "x/y#1"}},
		Node: 1 << 30, Threshold: Amount{Share: 0.1}, Duration: 10 * time.Second, Settle: 12 * time.Second,
		Pods:   []Pod{{Name: "hog", Count: 1, Processes: []Process{{Count: 1, Steps: []Step{{Verb: "grow", Amount: Amount{Share: 3}}}}}}},
		Expect: Expect{Exhausts: true, MayKill: []string{"hog"}, Needed: 1, Cause: "one pod"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestParseIncident_NamesTheField changes one place of a good file at a time.
func TestParseIncident_NamesTheField(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown", "duration: 10s", "duration: 10s\ncolour: red", "line 5: colour: unknown field"},
		{"unknown below", "name: hog", "name: hog\n    sise: 3", "pods[0].sise: unknown field"},
		{"duplicate", "duration: 10s", "duration: 10s\nduration: 11s", "line 5: duration: duplicate key"},
		{"missing", "title: A title\n", "", "title: required, but absent"},
		{"wrong type", "title: A title", "title: 7", "line 2: title: 7: want a text"},
		{"null", "title: A title", "title:", "title: want a value"},
		{"name", "name: some", "name: Some Name", `name: "Some Name": use lower-case`},
		{"long duration", "duration: 10s", "duration: 11m", "duration: 11m: want a time from 0s"},
		{"no unit", "duration: 10s", "duration: 10", "duration: 10: want a time"},
		{"short duration", "duration: 10s", "duration: 10ms", "duration: want at least 1s"},
		{"node", "duration: 10s", "duration: 10s\nnode: 3GiB", "node: want 64Mi to 2Gi"},
		{"amount", "grow: 300%", "grow: 300MB", "pods[0].processes[0].steps[0].grow: 300MB: want a whole number"},
		{"share", "grow: 300%", "grow: 0%", "steps[0].grow: 0%: want a percentage"},
		{"rate", "at: max", "at: 5MiB", "steps[0].at: 5MiB: want an amount per second"},
		{"verb", "grow: 300%", "shrink: 300%", "steps[0]: no verb: use one of grow, shared"},
		{"unknown verb", "grow: 300%", "shrink: 300%", "steps[0].shrink: unknown field"},
		{"two verbs", "grow: 300%", "grow: 300%, hold: 1s", "steps[0]: both grow and hold"},
		{"option", "at: max", "every: 1s", "steps[0].every: not possible with grow"},
		{"all but", "grow: 300%", "dirty: all but 3%", `steps[0].dirty: "all but" is possible with grow and shared only`},
		{"spawn", "grow: 300%, at: max", "spawn: 3", "steps[0].steps: required with spawn"},
		{"many", "grow: 300%, at: max", "spawn: 4001, steps: []", "steps[0].spawn: 4001: want a whole number from 0 to 4000"},
		{"deep", "grow: 300%, at: max", "repeat: 1, steps: [{repeat: 1, steps: [{repeat: 1, steps: [{repeat: 1, steps: []}]}]}]", "nested too deeply"},
		{"command", "steps: [{grow: 300%, at: max}]", "command: [x]", "processes[0].needs: required with a command"},
		{"both", "steps: [{grow: 300%, at: max}]", "steps: []\n        command: [x]\n        needs: [x]", "processes[0]: want either a command, or before and steps"},
		{"variable", "steps: [{grow: 300%, at: max}]", "command: [x, '{{node}}']\n        needs: [x]", "processes[0].command: argument 1: {{node}} is not available: use scratch"},
		{"stranger", "mayKill: [hog]", "mayKill: [dog]", "expect.mayKill: dog: no such pod"},
		{"nobody", "mayKill: [hog]", "mayKill: []", "expect.mayKill: empty, but the node is exhausted"},
		{"needed", "needed: 1", "needed: 0", "expect.needed: want at least 1"},
		{"needless", "exhausts: true", "exhausts: false", "expect.needed: want 0"},
		{"truth", "exhausts: true", "exhausts: maybe", "expect.exhausts: maybe: want true or false"},
		{"neighbour", "name: hog", "name: neighbour", "pods: neighbour: every incident has this pod already"},
		{"twice", "expect:", "  - {name: hog, processes: [{steps: []}]}\nexpect:", "pods: hog: two pods have this name"},
		{"source", "[{what: it grew, reference: \"x/y#1\"}]", "[]", "reenacts: empty"},
		{"alias", "title: A title", "title: &a A title", "title: anchors and aliases are not supported"},
		{"priority", "name: hog", "name: hog\n    priority: high", "pods[0].priority: high: want a whole number"},
		{"replace", "name: hog", "name: hog\n    replace: {after: 1s}", "pods[0].replace.times: required"},
		{"documents", "name: some", "---\n{}\n---\nname: some", "more than one document"},
		{"no yaml", "name: some", "name: [", "no YAML"},
		{"large", "title: A title", "title: " + strings.Repeat("x", MaxFile), "at most 65536"},
	} {
		text := strings.Replace(incidentText, c.from, c.to, 1)
		if text == incidentText {
			t.Fatalf("%s: %q is not in the text", c.name, c.from)
		}
		_, err := ParseIncident([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestParseIncident_ReportsAllFaults(t *testing.T) {
	_, err := ParseIncident([]byte("name: X\nnode: 3\n"))
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("got %v, want Faults", err)
	}
	for _, path := range []string{"name", "title", "node", "duration", "reenacts", "pods", "expect"} {
		found := false
		for _, f := range faults {
			found = found || f.Path == path
		}
		if !found {
			t.Errorf("no fault of %s in:\n%v", path, err)
		}
	}
}

func TestParseContestant_NamesTheField(t *testing.T) {
	if c, err := ParseContestant([]byte(contestantText)); err != nil || len(c.Programs) != 1 || c.Programs[0].Stop.Signal != "TERM" {
		t.Fatalf("got %+v, %v", c, err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"arena", "[cgroup]", "[moon]", "arenas[0]: moon: use cgroup, machine"},
		{"no arena", "arenas: [cgroup]\n", "", "arenas: required"},
		{"unseen", "sees: [node]\n", "", "programs[0].command: argument 1: {{node}} is not available"},
		{"typing", "{{scratch}}", "{{scrach}}", "programs[0].command: argument 2: {{scrach}} is not available"},
		{"ready", "ready: {line: ^ready}", "ready: {}", "programs[0].ready: want either line or after"},
		{"no ready", "    ready: {line: ^ready}\n", "", "programs[0].ready: required"},
		{"pattern", "^ready", "(ready", "programs[0].ready.line: error parsing regexp"},
		{"signal", "ready: {line: ^ready}", "ready: {line: ^ready}\n    stop: {signal: STOP}", "programs[0].stop.signal: STOP: use TERM"},
		{"phase", "sees: [node]", "sees: [node]\nphase: 11s", "phase: want at most 10s"},
		{"need", "sees: [node]", "sees: [node]\nneeds: [{because: x}]", "needs[0]: want exactly one of program, file and cgroup"},
		{"why", "sees: [node]", "sees: [node]\nneeds: [{file: /x}]", "needs[0].because: required"},
		{"elsewhere", "sees: [node]", "sees: [node]\nelsewhere: maybe", "elsewhere: maybe: want true or false"},
		{"path", "sees: [node]", "sees: [node]\nfiles: [{name: ../x, text: y}]", "files[0].name: want the name of a file"},
		{"text", "sees: [node]", "sees: [node]\nfiles: [{name: x, text: '{{manifests}}'}]", "files[0].text: {{manifests}} is not available"},
		{"before", "sees: [node]", "sees: [node]\nbefore: [[]]", "before[0]: want a program and its arguments"},
		{"score", "name: one", "name: one\n    oomScoreAdj: -2000", "programs[0].oomScoreAdj: -2000: want a whole number from -1000 to 1000"},
	} {
		text := strings.Replace(contestantText, c.from, c.to, 1)
		if text == contestantText {
			t.Fatalf("%s: %q is not in the text", c.name, c.from)
		}
		_, err := ParseContestant([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestParseAmount(t *testing.T) {
	const node = 1000 << 20
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "300MiB": 300 << 20, "1GiB": 1 << 30, "30%": 300 << 20, "12.5%": 125 << 20, "all but 60MiB": 60 << 20, "all but 5%": 50 << 20,
		"": -1, "-1": -1, "1MB": -1, "1.5GiB": -1, "%": -1, "0%": -1, "-3%": -1, "NaN%": -1, "Inf%": -1, "1001%": -1, "9999999999GiB": -1, "all but": -1, "all but all but 3": -1, "5 MiB": -1,
	} {
		a, err := ParseAmount(text)
		switch {
		case want < 0 && err == nil:
			t.Errorf("ParseAmount(%q) = %+v, want an error", text, a)
		case want >= 0 && (err != nil || a.Of(node) != want || a.AllBut != strings.HasPrefix(text, "all but")):
			t.Errorf("ParseAmount(%q) = %+v, %v, want %d bytes", text, a, err, want)
		}
	}
	for text, want := range map[string]int64{"max": 0, "5MiB/s": 5 << 20, "10%/s": 100 << 20, "5MiB": -1, "0/s": -1, "all but 5/s": -1, "/s": -1, "": -1} {
		r, err := ParseRate(text)
		if (want < 0) != (err != nil) || want >= 0 && r.Of(node) != want {
			t.Errorf("ParseRate(%q) = %+v, %v, want %d", text, r, err, want)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.50Ki", 100 << 20: "100Mi", 12345678: "11.8Mi", 3 << 30: "3Gi", -5 << 20: "-5Mi"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	values := map[string]string{"node": "/n", "total": "{{node}}"}
	if got := Expand("a {{node}}/{{total}} {{other}} {{", values); got != "a /n/{{node}} {{other}} {{" {
		t.Errorf("got %q: each variable is replaced once", got)
	}
}

func FuzzParseIncident(f *testing.F) {
	f.Add([]byte(incidentText))
	f.Add([]byte("name: &a x\npods: *a\n"))
	f.Add([]byte("pods: [{processes: [{steps: [{spawn: 2, steps: [{grow: all but 1%}]}]}]}]"))
	f.Add([]byte("? [a]\n: b\n<<: {x: 1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := ParseIncident(text)
		if err != nil {
			return
		}
		pods := 0
		for _, p := range i.Pods {
			pods += len(p.Names())
		}
		if i.Name == "" || pods == 0 || pods > maxPods || i.Node < MinNode || i.Node > MaxNode || i.Duration > maxTime {
			t.Errorf("accepted %+v", i)
		}
	})
}

func FuzzParseContestant(f *testing.F) {
	f.Add([]byte(contestantText))
	f.Add([]byte("needs: [{cgroup: 2, because: x}]\nfiles: [{name: a, text: '{{total}}'}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseContestant(text)
		if err != nil {
			return
		}
		allowed := c.variables()
		for _, p := range c.Programs {
			for _, word := range p.Command {
				if err := checkVariables(word, allowed); err != nil {
					t.Errorf("accepted %q: %v", word, err)
				}
			}
			if p.Ready.Line == nil && p.Ready.After < 0 || len(p.Command) == 0 {
				t.Errorf("accepted %+v", p)
			}
		}
	})
}
