package screen

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/agent"
)

var update = flag.Bool("update", false, "write the golden file")

const mib = 1 << 20

// rate is the leak's: a bar each 800 ms.
const rate = 40 * mib

func options() Options { return Options{Capacity: 512 * mib, Threshold: 100 * mib} }

func in(d time.Duration) *time.Duration { return &d }

// demoText returns the text of a whole demo.
func demoText(t *testing.T, o Options) string {
	t.Helper()
	var out bytes.Buffer
	s := New(&out, o)
	s.Node(2)
	s.Pods([]Usage{{"shop/web", 40 * mib}, {"shop/db", 120 * mib}, {"jobs/batch", 45 * mib}, {"jobs/leaky", 10 * mib}})
	s.Agent()
	s.Leak("jobs/leaky", rate)
	available := func(at time.Duration) int64 { return 284*mib - int64(at.Seconds()*rate) }
	crossed, imminent := 4625*time.Millisecond, 6600*time.Millisecond
	for at := time.Duration(0); at < imminent; at += 25 * time.Millisecond {
		s.Bar(at, available(at))
		if at == crossed {
			s.Wait(at, &Decision{Available: 99 * mib, Exhaustion: in(2500 * time.Millisecond)})
		}
	}
	freed := int64(276 * mib)
	d := Decision{
		Early: true, Available: 18*mib + 123, Exhaustion: in(447 * time.Millisecond), Pod: "jobs/leaky", Processes: 1, Exit: 9200 * time.Microsecond, Freed: &freed,
		Ranking: []Pod{
			{"jobs/leaky", "uses 285428Ki, 264948Ki above its request, priority 0"},
			{"jobs/batch", "uses 49740Ki, 29260Ki above its request, priority 0"},
			{"shop/db", "uses 126376Ki, within its request of 150Mi, priority 1000"},
			{"shop/web", "uses 44388Ki, within its request of 80Mi, priority 1000"},
		},
	}
	s.Wait(imminent, &Decision{Available: 20 * mib, Exhaustion: in(498 * time.Millisecond)})
	s.Evicted(imminent, &d)
	s.LastBar(imminent, 295*mib)
	s.Ranking(&d)
	s.Outcome(&Outcome{Decision: d, RightPod: true, Below: 2 * time.Second, Survivors: []string{"shop/web", "shop/db", "jobs/batch"}})
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestScreen_Story(t *testing.T) {
	got := demoText(t, options())
	const golden = "testdata/demo.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the demo's text differs from %s; if intended, run this test with -update. Got:\n%s", golden, got)
	}
}

// sgr is a control sequence of colours.
var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestScreen_ColorsChangeNoText(t *testing.T) {
	plain, o := demoText(t, options()), options()
	o.Colored = true
	colored := demoText(t, o)
	if got := sgr.ReplaceAllString(colored, ""); got != plain {
		t.Errorf("without its control sequences the coloured text is:\n%s\nwant:\n%s", got, plain)
	}
	for _, want := range []string{"\x1b[32m█", "\x1b[33m█", "\x1b[31m█", "\x1b[31m✗", "\x1b[32m✓"} {
		if !strings.Contains(colored, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.ContainsAny(plain, "\x1b\r") {
		t.Error("control characters in the text without colours")
	}
}

// TestScreen_LiveEndsAsPlain replays carriage returns as a terminal does: of a
// live screen the lines of a plain one remain.
func TestScreen_LiveEndsAsPlain(t *testing.T) {
	plain, o := demoText(t, options()), options()
	o.Live = true
	live := demoText(t, o)
	if strings.Count(live, "\r") < 200 {
		t.Error("the bar is not redrawn")
	}
	var remains strings.Builder
	for line := range strings.Lines(live) {
		remains.WriteString(line[strings.LastIndex(line, "\r\x1b[K")+1:])
	}
	if got := strings.ReplaceAll(remains.String(), "\x1b[K", ""); got != plain {
		t.Errorf("got the live screen:\n%s\nwant:\n%s", got, plain)
	}
}

// oldNotation matches amounts of memory in other units than Mi, and words of the old
// vocabulary.
var oldNotation = regexp.MustCompile(`[0-9] ?([KG]i|[KMG]i?B)|\b(looks?|doomed|regular|extra|told|nobody|who)\b`)

func TestScreen_WidthAndNotation(t *testing.T) {
	text := demoText(t, options())
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > Columns {
			t.Errorf("%d columns, at most %d: %s", n, Columns, line)
		}
	}
	if found := oldNotation.FindAllString(text, -1); found != nil {
		t.Errorf("%q in:\n%s", found, text)
	}
}

func TestScreen_BarColors(t *testing.T) {
	o := options()
	o.Colored = true
	for available, want := range map[int64]style{
		512 * mib: green, 200 * mib: green, 200*mib - 1: yellow, 100 * mib: yellow, 100*mib - 1: red, 0: red, -mib: red, 600 * mib: green,
	} {
		s := New(nil, o)
		line := s.bar(0, available)
		if got := s.distance(available); got != want {
			t.Errorf("%d bytes available: colour %s, want %s", available, got, want)
		}
		plain := sgr.ReplaceAllString(line, "")
		if n := strings.Count(plain, "█") + strings.Count(plain, "░") + strings.Count(plain, "⊖"); n != barWidth || strings.Count(plain, "⊖") != 1 {
			t.Errorf("%d bytes available: %d cells in %s", available, n, plain)
		}
	}
}

// TestScreen_LimitsNumberOfBars counts the lines of a node that fills at any rate: one for
// each 16th of it or, if that takes longer, one in 5 s.
func TestScreen_LimitsNumberOfBars(t *testing.T) {
	for seconds, want := range map[int64]int{1: 16, 13: 16, 160: 33} {
		var out bytes.Buffer
		s := New(&out, options())
		for ms := range 1000*seconds + 1 {
			s.Bar(time.Duration(ms)*time.Millisecond, 512*mib-512*mib*ms/(1000*seconds))
		}
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("full in %d s: %d lines, want %d", seconds, got, want)
		}
	}
}

func TestScreen_ShowsOtherOutcomes(t *testing.T) {
	var out bytes.Buffer
	s := New(&out, options())
	s.Wait(0, &Decision{Available: 99 * mib})
	s.Failed(time.Second, &Decision{Available: 50 * mib, Failed: []Pod{{"jobs/leaky", "uses 2048Ki still"}}})
	d := Decision{Pod: "shop/db", Available: 90 * mib, Processes: 2, Exit: 150 * time.Millisecond, Exhaustion: in(9 * time.Second)}
	s.Evicted(2*time.Second, &d)
	s.Outcome(&Outcome{Decision: d, Lost: []string{"shop/web"}, OOMKills: 1, Below: time.Second})
	for _, want := range []string{
		"99Mi available, not falling: not imminent", "50Mi available, not falling: no pod could be evicted", "jobs/leaky: uses 2Mi still",
		"periodic check, evict shop/db", "✗ shop/db evicted: 2 processes gone 150 ms after the check\n", "✗ OOM kills by the kernel: 1", "✗ still running", "✓ below the line for 1.0 s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

type brokenPipe struct{}

var errPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestScreen_ReturnsWriteError(t *testing.T) {
	s := New(brokenPipe{}, options())
	if s.Node(1); !errors.Is(s.Err(), errPipe) {
		t.Errorf("error %v, want %v", s.Err(), errPipe)
	}
}

func TestOneNotation_UsesMebibytes(t *testing.T) {
	for text, want := range map[string]string{
		"uses 228608Ki, 208128Ki above its request, priority 1000": "uses 223Mi, 203Mi above its request, priority 1000",
		"1Gi of 2048Mi": "1024Mi of 2048Mi",
		"512Ki, 0":      "<1Mi, 0",
		"99999999999999999999Ki and 9999999999999Ti are none": "99999999999999999999Ki and 9999999999999Ti are none",
	} {
		if got := oneNotation(text); got != want {
			t.Errorf("oneNotation(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestColored_FollowsTerminalAndOption(t *testing.T) {
	for _, c := range []struct {
		flag     string
		terminal bool
		noColor  string
		want     bool
	}{
		{"auto", true, "", true}, {"auto", false, "", false}, {"auto", true, "1", false},
		{"always", false, "1", true}, {"never", true, "", false},
	} {
		if got, err := Colored(c.flag, c.terminal, c.noColor); err != nil || got != c.want {
			t.Errorf("%+v: %t, %v", c, got, err)
		}
	}
	if _, err := Colored("blue", true, ""); err == nil {
		t.Error("-color blue is accepted")
	}
}

func TestRead_DecodesDecisions(t *testing.T) {
	millis, available, now := 412.5, int64(20*mib), time.Now()
	d := Read(&agent.Decision{
		Time: now, Decision: agent.Evicted, Check: "early", Available: &available, TimeToExhaustion: &millis, Pod: "jobs/leaky",
		Processes: 3, ExitTime: &millis, FreedBytes: &available, Ranking: []agent.PodReason{{Pod: "jobs/leaky", Reason: "uses 1Mi"}},
	})
	if d.Kind != Evicted || !d.Early || d.Available != available || !d.Time.Equal(now) || d.Exit != 412500*time.Microsecond || !d.Imminent() ||
		d.Pod != "jobs/leaky" || d.Processes != 3 || *d.Freed != available || len(d.Ranking) != 1 || d.Ranking[0] != (Pod{"jobs/leaky", "uses 1Mi"}) {
		t.Errorf("decision %+v", d)
	}
	for verb, want := range map[agent.Verb]Kind{agent.Pending: Waits, agent.Failed: Failed, agent.Evicted: Other, agent.Nothing: Other} {
		if got := Read(&agent.Decision{Decision: verb}); got.Kind != want || got.Imminent() {
			t.Errorf("%s without figures: %+v, want kind %d", verb, got, want)
		}
	}
	if d := Read(&agent.Decision{Decision: agent.Evicted, ProcessesRemain: true}); d.Kind != Evicted || d.Exit != 0 {
		t.Errorf("an eviction with processes that remain: %+v", d)
	}
	for check, want := range map[string]bool{"early": true, "periodic": false, "": false} {
		if early(check) != want {
			t.Errorf("check %q: early is %t", check, !want)
		}
	}
}
