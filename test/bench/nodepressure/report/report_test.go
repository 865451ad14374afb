package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// run is a result with a verdict.
func run(machine, incident, contestant string, seed uint64, v score.Verdict) *result.Result {
	took := 30.0 + float64(seed)
	return &result.Result{
		Machine: result.Machine{Name: machine, Cgroup: 2, Load: fmt.Sprint(seed)}, Arena: "cgroup", Seed: seed,
		Incident:   result.Incident{Named: result.Named{Name: incident, Title: "Title of " + incident}, Reenacts: []string{"x/y#1: it grew"}, Cause: "a pod", Expect: score.Expect{Exhausts: true, MayKill: []string{"hog"}, Needed: 1}},
		Contestant: result.Contestant{Named: result.Named{Name: contestant}, Version: contestant + " 1.0", Documented: "manual of " + contestant},
		Observation: &score.Observation{
			Total: 1 << 30, Threshold: 100 << 20, Least: 50 << 20, SlotWidth: 50, Slots: []int64{1 << 30, 1 << 29, 50 << 20, 1 << 30},
		},
		Score: &score.Score{Verdict: v, Saved: v == score.Won, CrossingToDead: &took, Least: 50 << 20, Isolation: 97, P99Ratio: 1.25, HeartbeatGap: 105},
	}
}

func results() []*result.Result {
	all := []*result.Result{
		run("a", "grows", "first", 1, score.Won), run("a", "grows", "first", 2, score.Won), run("a", "grows", "first", 3, score.Lost),
		run("a", "dips", "first", 1, score.Invalid), run("a", "grows", "second", 1, score.Wrong), run("a", "dips", "second", 1, score.Lost),
		run("b", "grows", "first", 1, score.Won),
	}
	missing := run("a", "grows", "third", 1, score.Won)
	missing.Observation, missing.Score, missing.Unavailable = nil, nil, "it needs <b>swap</b> | and [more](x)"
	failed := run("a", "dips", "second", 2, score.Won)
	failed.Observation, failed.Score, failed.Failed = nil, nil, "no cgroup"
	return append(all, missing, failed)
}

func TestNew_GroupsAndOrders(t *testing.T) {
	r := New(results())
	if len(r.Sections) != 2 || !strings.HasPrefix(r.Sections[0].Machine, "a:") {
		t.Fatalf("got %d sections, want one for each machine, whatever its load", len(r.Sections))
	}
	s := r.Sections[0]
	var names []string
	for _, c := range s.Contestants {
		names = append(names, fmt.Sprintf("%s %d/%d", c.Name, c.Total.Verdicts[score.Won], c.Total.Runs))
	}
	if want := []string{"first 2/3", "second 0/2", "third 0/0"}; !slices.Equal(names, want) {
		t.Errorf("contestants %v, want %v", names, want)
	}
	var cells []string
	for _, i := range s.Incidents {
		for _, c := range i.Cells {
			cells = append(cells, i.Name+" "+c.Contestant+" "+c.short())
		}
	}
	if want := []string{"dips first invalid 1", "dips second 0/1: lost 1, failed 1", "dips third –", "grows first 2/3: lost 1", "grows second 0/1: wrong 1", "grows third –"}; !slices.Equal(cells, want) {
		t.Errorf("cells %q\nwant  %q", cells, want)
	}
}

// TestNew_NamesEachBuildOfKernel has runs of two builds in one section, and those of another version apart.
func TestNew_NamesEachBuildOfKernel(t *testing.T) {
	var all []*result.Result
	for i, kernel := range []string{"6.1.0-31-cloud-amd64 x86_64", "6.6.3 x86_64", "6.1.0-30-cloud-amd64 x86_64", "6.1.0-31-cloud-amd64 x86_64"} {
		r := run("a", "grows", "first", uint64(i+1), score.Won)
		r.Machine.Kernel = kernel
		all = append(all, r)
	}
	sections := New(all).Sections
	if len(sections) != 2 || sections[0].Contestants[0].Total.Runs != 3 || sections[1].Contestants[0].Total.Runs != 1 {
		t.Fatalf("got %d sections, want one of three runs and one of one", len(sections))
	}
	if text := sections[0].Machine; !strings.Contains(text, "Linux 6.1.0-30-cloud-amd64 x86_64 and 6.1.0-31-cloud-amd64 x86_64,") {
		t.Errorf("the heading %q does not name both kernels once", text)
	}
}

// TestReport_NamesItsLimits checks that both forms state what they can not show.
func TestReport_NamesItsLimits(t *testing.T) {
	var page, text bytes.Buffer
	r := New(results())
	if err := errors.Join(r.HTML(&page), r.Markdown(&text)); err != nil {
		t.Fatal(err)
	}
	for _, limit := range limits {
		if !strings.Contains(page.String(), limit) || !strings.Contains(text.String(), escape(limit)) {
			t.Errorf("a report lacks: %s", limit)
		}
		for sentence := range strings.SplitSeq(limit, ". ") {
			if n := len(strings.Fields(sentence)); n > 25 {
				t.Errorf("%d words, at most 25: %s", n, sentence)
			}
		}
	}
}

// TestReport_IsDeterministic shuffles the results.
func TestReport_IsDeterministic(t *testing.T) {
	render := func(all []*result.Result) string {
		var b bytes.Buffer
		r := New(all)
		if err := r.HTML(&b); err != nil {
			t.Fatal(err)
		}
		if err := r.Markdown(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := render(results())
	for seed := range uint64(5) {
		all := results()
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if render(all) != first {
			t.Fatalf("seed %d: another order of results gave another report", seed)
		}
	}
}

func TestHTML_StandsAlone(t *testing.T) {
	var b bytes.Buffer
	if err := New(results()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, pattern := range []string{`<script`, `javascript:`, `https?://`, `<link`, `<img`, `@import`, `url\(`, ` on[a-z]+=`, `ZgotmplZ`, `<b>swap`} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("the page contains %s", found)
		}
	}
	for _, want := range []string{
		`name="viewport"`, "prefers-color-scheme: dark", "Title of grows", "Re-enacts x/y#1: it grew", "Memory runs out unless one pod of hog ends.",
		`<td class="lost">2/3<small>lost 1</small>`, "32 ms (33 ms)", "50Mi", "97 %", "× 1.2", `<polyline points="0.0,0.0 80.0,20.0`, "<small>first 1.0</small>", "Configuration of first: manual of first", "third did not run everywhere: it needs &lt;b&gt;swap",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestMarkdown_HasTables(t *testing.T) {
	var b bytes.Buffer
	if err := New(results()).Markdown(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"| contestant | incidents | not counted | won | saved | kernel kills |", "| first | 1 | 1 | 2/3 | 2/3 | 0 |", "| second | 2 | 1 | 0/2 |", "second did not run: a run failed: no cgroup", "| incident | first | second | third |", "| grows | 2/3: lost 1 | 0/1: wrong 1 | – |", "- first: version first 1.0", "- first: configuration: manual of first",
		`- third did not run: it needs &lt;b>swap&lt;/b> \| and \[more](x)`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %s:\n%s", want, text)
		}
	}
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if strings.HasPrefix(line, "|") && columns != 0 && n != columns {
			t.Errorf("%d bars, want %d: %s", n, columns, line)
		}
		columns = n
	}
}

func TestShow_IsShort(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{showTime(0.254), "0.25 ms"}, {showTime(3.14), "3.1 ms"}, {showTime(250.4), "250 ms"}, {showTime(10_400), "10 s"}, {showTime(1500), "1.5 s"},
		{showPercent(99.6), "100 %"}, {showPercent(0.031), "0.03 %"}, {showFactor(1.24), "× 1.2"}, {showBytes(60 << 20), "60Mi"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	some := metric{"some", func(c *score.Cell) score.Spread { return c.LeftAtKill }, showBytes}
	for want, c := range map[string]score.Cell{
		"–": {Runs: 3}, "2Mi, n = 1": {Runs: 3, LeftAtKill: score.Spread{N: 1, Median: 2 << 20, Worst: 2 << 20}}, "2Mi": {Runs: 1, LeftAtKill: score.Spread{N: 1, Median: 2 << 20}},
		"2Mi (1Mi)": {Runs: 3, LeftAtKill: score.Spread{N: 3, Median: 2 << 20, Worst: 1 << 20}}, "2Mi (1Mi), n = 2": {Runs: 3, LeftAtKill: score.Spread{N: 2, Median: 2 << 20, Worst: 1 << 20}},
	} {
		if got := some.Show(&c); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPicture_ShowsShares(t *testing.T) {
	all := results()
	all[0].Contestant.Name, all[1].Contestant.Name, all[2].Contestant.Name = "<first>", "<first>", "<first>"
	var b bytes.Buffer
	if err := New(all).Picture(&b); err != nil {
		t.Fatal(err)
	}
	picture := b.String()
	for _, want := range []string{
		`viewBox="0 0 760 `, "The node is a cgroup with a limit, cgroup v2", "&lt;first&gt;", `x="210.0" y="71" width="266.7" height="16" fill="#2da44e"`,
		`x="476.7" y="71" width="133.3" height="16" fill="#cf222e"`, "won 2/3", "won 0/2",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture lacks %s:\n%s", want, picture)
		}
	}
	if strings.Contains(picture, "third") || strings.Contains(picture, "<first>") {
		t.Errorf("the picture has a contestant without runs, or an unescaped name:\n%s", picture)
	}
	decoder := xml.NewDecoder(&b)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}

func TestTimeline_IsInOrder(t *testing.T) {
	r := run("a", "grows", "first", 7, score.Lost)
	crossed := 1000.0
	r.Score.Why, r.Score.KernelKills = "1 OOM kills by the kernel's count", 1
	o := r.Observation
	o.Duration, o.Crossed, o.Plan, o.Contestant = 6000, &crossed, "abc", &score.Contestant{Output: "its log"}
	o.Pods = []score.Pod{
		{Name: "hog", UID: "u-1", Deaths: []score.Death{{At: 1500, PID: 7, Signal: 9, Least: 1 << 20}}, Kills: []score.Kill{{At: 1499, Count: 1, Least: 1 << 20}}},
		{Name: "calm", Deaths: []score.Death{{At: -200, PID: 8, Code: 3, Least: math.MaxInt64}}, Lost: []float64{1200}, Stopped: true},
	}
	var b bytes.Buffer
	if err := Timeline(&b, r); err != nil {
		t.Fatal(err)
	}
	rest := b.String()
	for _, want := range []string{
		"first against grows, seed 7\n", "The node is a cgroup with a limit.", "threshold 100Mi, plan abc",
		"-0.200 s  process 8 of calm ended by exit with status 3; least available until then unknown", "0.000 s  the incident begins",
		"1.000 s  less than the threshold is available", "1.200 s  a signal ended a child in calm", "1.499 s  the kernel has killed 1 processes of hog (u-1); least available until then 1Mi",
		"1.500 s  process 7 of hog (u-1) ended by signal 9", "6.000 s  the incident ends", "6.000 s  calm is stopped", "lost: 1 OOM kills by the kernel's count", "its log",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing or at another place in\n%s", want, b.String())
		}
		rest = after
	}
	r.Observation, r.Score, r.Unavailable = nil, nil, "no program"
	b.Reset()
	if err := Timeline(&b, r); err != nil || !strings.Contains(b.String(), "Not run: no program") {
		t.Errorf("got %q, %v", b.String(), err)
	}
	r.Unavailable, r.Failed = "", "no cgroup"
	b.Reset()
	if err := Timeline(&b, r); err != nil || !strings.Contains(b.String(), "Failed: no cgroup") {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

func TestLine_IsBounded(t *testing.T) {
	o := &score.Observation{Total: 100, Threshold: 10, SlotWidth: 50, Slots: make([]int64, 5000)}
	for i := range o.Slots {
		o.Slots[i] = int64(i)*1000 - 500
	}
	l := newLine(o)
	if n := len(strings.Fields(l.Points)); n > linePoints {
		t.Errorf("%d points, at most %d", n, linePoints)
	}
	if strings.Contains(l.Points, "-") || l.Threshold != "36.0" {
		t.Errorf("outside of the picture: %s, threshold at %s", l.Points, l.Threshold)
	}
	if newLine(nil) != nil || newLine(&score.Observation{Slots: []int64{1, 2}}) != nil {
		t.Error("drew a line of nothing")
	}
}
