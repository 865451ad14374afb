package evictionlog_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/why"
	"plimsoll.dev/plimsoll/ranking"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(24 * time.Hour) // than every eviction
)

// eviction returns the record of an eviction, some minutes after noon.
func eviction(pod string, minutes int) *decisionlog.Record {
	return &decisionlog.Record{Time: noon.Add(time.Duration(minutes) * time.Minute), Decision: "evict", Conditions: []string{}, Pod: pod, UID: "uid-" + pod}
}

func put(t *testing.T, l *evictionlog.Log, all ...*decisionlog.Record) {
	t.Helper()
	for _, r := range all {
		if err := l.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

// summary lists the records of a log, and the other lines.
func summary(l *evictionlog.Log) (all []string) {
	records, unreadable := l.Records()
	for i := range records {
		r := &records[i]
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %.0f %s", r.Pod, r.Time.Sub(noon).Minutes(), r.End)))
	}
	if unreadable > 0 {
		all = append(all, fmt.Sprintf("%d unreadable", unreadable))
	}
	return all
}

func TestLog_PutReplacesSameEviction(t *testing.T) {
	ended := func(r *decisionlog.Record, end string) *decisionlog.Record { r.End = end; return r }
	for about, test := range map[string]struct {
		puts []*decisionlog.Record
		want []string
	}{
		"in order of time": {[]*decisionlog.Record{eviction("a/x", 2), eviction("a/y", 1), eviction("a/z", 3)}, []string{"a/y 1", "a/x 2", "a/z 3"}},
		"its end":          {[]*decisionlog.Record{eviction("a/x", 1), eviction("a/y", 2), ended(eviction("a/x", 1), "recovered")}, []string{"a/x 1 recovered", "a/y 2"}},
		"again later":      {[]*decisionlog.Record{ended(eviction("a/x", 1), "freed"), eviction("a/x", 2)}, []string{"a/x 1 freed", "a/x 2"}},
	} {
		l := &evictionlog.Log{}
		put(t, l, test.puts...)
		if got := summary(l); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", about, got, test.want)
		}
		if again := evictionlog.Parse(l.String()); again.String() != l.String() {
			t.Errorf("%s: read again\n%s\nwant\n%s", about, again, l)
		}
	}
}

// A withdrawn eviction gives way to a later one of its pod, whichever of the two logs has it.
func TestLog_AddDropsReplacedWithdrawals(t *testing.T) {
	withdrawn := func(minutes int) *decisionlog.Record {
		r := eviction("a/x", minutes)
		r.End = evictionlog.Withdrawn
		return r
	}
	for about, test := range map[string]struct {
		stored, added []*decisionlog.Record
		want          []string
	}{
		"after withdrawals":        {[]*decisionlog.Record{withdrawn(1), withdrawn(2)}, []*decisionlog.Record{eviction("a/x", 3)}, []string{"a/x 3"}},
		"withdrawn later":          {[]*decisionlog.Record{eviction("a/x", 1)}, []*decisionlog.Record{eviction("a/x", 2), withdrawn(1)}, []string{"a/x 2"}},
		"both are added":           {nil, []*decisionlog.Record{withdrawn(1), eviction("a/x", 2)}, []string{"a/x 2"}},
		"another one is withdrawn": {[]*decisionlog.Record{eviction("a/x", 1)}, []*decisionlog.Record{withdrawn(2)}, []string{"a/x 1", "a/x 2 withdrawn"}},
		"another pod":              {[]*decisionlog.Record{withdrawn(1)}, []*decisionlog.Record{eviction("a/y", 2)}, []string{"a/x 1 withdrawn", "a/y 2"}},
	} {
		l, added := &evictionlog.Log{}, &evictionlog.Log{}
		put(t, l, test.stored...)
		put(t, added, test.added...)
		l.Add(added)
		if got := summary(l); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", about, got, test.want)
		}
	}
}

func TestLog_PreservesWhatItCannotRead(t *testing.T) {
	const later = `{"time":"2026-03-01T12:01:00Z","decision":"evict","pod":"a/x","uid":"uid-a/x","of a later version":{"kept":[1]}}`
	lines := []string{later, `{"form":2,"eviction":"a/y"}`, `no JSON`, `{"time":"tomorrow","pod":"a/z"}`}
	l := evictionlog.Parse(strings.Join(lines, "\n"))
	put(t, l, eviction("a/n", 5))
	if _, err := l.Trim(noon); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(l.String(), line+"\n") {
			t.Errorf("%s is not preserved:\n%s", line, l)
		}
	}
	if got, want := summary(l), []string{"a/x 1", "a/n 5", "3 unreadable"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLog_TrimRefusesTooManyUnknownLines(t *testing.T) {
	unknown := strings.Repeat("x", 1023) + "\n"
	for n, fails := range map[int]bool{16: false, 17: true} {
		l := evictionlog.Parse(strings.Repeat(unknown, n))
		put(t, l, eviction("a/x", 1))
		_, err := l.Trim(noon)
		if (err != nil) != fails || l.Len() != n+1 {
			t.Errorf("%d unknown lines: %d lines, %v", n, l.Len(), err)
		}
	}
}

func TestLog_ExpireDropsOldRecords(t *testing.T) {
	l := evictionlog.Parse("unreadable\n")
	put(t, l, eviction("a/x", 0), eviction("a/y", 60))
	l.Expire(noon.Add(evictionlog.MaxAge + time.Minute))
	if got := summary(l); !slices.Equal(got, []string{"a/y 60", "1 unreadable"}) {
		t.Errorf("got %q", got)
	}
}

// A clock that is wrong by months drops no record for its age, and its records do not displace those of a right one.
func TestLog_WrongClockDisplacesNothing(t *testing.T) {
	const month = 30 * 24 * 60 // minutes
	l := &evictionlog.Log{}
	for i := range evictionlog.MaxRecords {
		put(t, l, eviction(fmt.Sprintf("a/%d", i), i))
	}
	for about, now := range map[string]time.Time{"ahead": noon.Add(60 * 24 * time.Hour), "behind": time.Unix(0, 0)} {
		if dropped, err := l.Trim(now); dropped != 0 || err != nil || l.Len() != evictionlog.MaxRecords {
			t.Errorf("%s: %d dropped, %d left, %v", about, dropped, l.Len(), err)
		}
	}
	for i := range 50 { // by a clock two months ahead: as many as these make room
		put(t, l, eviction(fmt.Sprintf("a/ahead-%d", i), 2*month+i))
		if dropped, _ := l.Trim(noon.Add(time.Duration(2*month+i) * time.Minute)); dropped != 1 {
			t.Errorf("%d dropped", dropped)
		}
	}
	for i := range 60 { // by a right one again
		put(t, l, eviction(fmt.Sprintf("a/right-%d", i), 1000+i))
		if _, err := l.Trim(noon.Add(time.Duration(1000+i) * time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	got := summary(l)
	if len(got) != evictionlog.MaxRecords || got[0] != "a/60 60" || got[len(got)-1] != "a/right-59 1059" {
		t.Errorf("%d records, from %s to %s", len(got), got[0], got[len(got)-1])
	}
}

// However many evictions a namespace has, the others keep theirs.
func TestLog_TrimSharesByNamespace(t *testing.T) {
	l := &evictionlog.Log{}
	put(t, l, eviction("quiet/x", 0), eviction("quiet/y", 1))
	for i := range 1000 {
		put(t, l, eviction(fmt.Sprintf("loud/%d", i), 2+i))
		if _, err := l.Trim(later); err != nil {
			t.Fatal(err)
		}
	}
	got := summary(l)
	if len(got) != evictionlog.MaxRecords || got[0] != "quiet/x 0" || got[1] != "quiet/y 1" || got[2] != "loud/902 904" || got[len(got)-1] != "loud/999 1001" {
		t.Errorf("%d records: %q", len(got), got)
	}
}

// For any evictions: the bounds hold, and a namespace loses a record only while no other holds more bytes.
func TestLog_TrimIsBoundedAndFair(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		l := &evictionlog.Log{}
		for i := range 20 + r.IntN(300) {
			e := eviction(fmt.Sprintf("ns-%d/pod-%d", int(r.ExpFloat64()*2), i), i)
			e.Message, e.Choice = strings.Repeat("m", r.IntN(2000)), &decisionlog.Choice{Cause: "memory.available"}
			for range r.IntN(6) {
				e.Choice.Places = append(e.Choice.Places, decisionlog.Place{Pod: strings.Repeat("p", 300)})
			}
			put(t, l, e)
		}
		before := bytesOf(l)
		dropped, err := l.Trim(later)
		if err != nil {
			t.Fatal(err)
		}
		after, total, largest := bytesOf(l), len(l.String()), 0
		for _, n := range after {
			largest = max(largest, n)
		}
		if total > evictionlog.MaxBytes || l.Len() > evictionlog.MaxRecords {
			t.Fatalf("seed %d: %d bytes in %d records", seed, total, l.Len())
		}
		for namespace, n := range before {
			const oneRecord = 3<<10 + 1
			if after[namespace] < n && after[namespace]+oneRecord < largest {
				t.Errorf("seed %d: %s lost %d of %d bytes, and another one holds %d", seed, namespace, n-after[namespace], n, largest)
			}
		}
		if again, err := l.Trim(later); again != 0 || err != nil {
			t.Errorf("seed %d: trimmed after %d by %d more, %v", seed, dropped, again, err)
		}
	}
}

func bytesOf(l *evictionlog.Log) map[string]int {
	held := map[string]int{}
	for line := range strings.Lines(l.String()) {
		_, rest, _ := strings.Cut(line, `"pod":"`)
		namespace, _, _ := strings.Cut(rest, "/")
		held[namespace] += len(line)
	}
	return held
}

func TestLog_RecordsAreCompact(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	full := eviction("a/x", 1)
	full.WokenBy, full.Met, full.Ranking = []string{"stall"}, []string{"memory.available"}, []decisionlog.PodReason{{Pod: "a/x", Reason: "why"}}
	full.Reason, full.Message, full.End = long, "The node was low on resource: memory. ", "recovered"
	for range 5 {
		full.Failed = append(full.Failed, decisionlog.PodReason{Pod: "a/y", Reason: long})
	}
	full.Choice = &decisionlog.Choice{Cause: "nodefs.inodesFree", Places: []decisionlog.Place{{Place: 1, Pod: "a/x", UID: "uid-a/x",
		Key: ranking.Key{Order: ranking.ByInodes, Usage: 5, Exceeds: true, Incomplete: long}, Frees: 5}}}
	l := &evictionlog.Log{}
	put(t, l, full)
	if text := l.String(); len(text) > 3<<10 || !utf8.ValidString(text) || strings.Contains(text, `"ranking"`) || strings.Contains(text, `"met"`) || strings.Count(text, "\n") != 1 {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
	records, _ := l.Records()
	got := records[0]
	if len(got.Failed) != 3 || !strings.HasSuffix(got.Reason, "ä...") || got.Message != "The node was low on resource: memory." || got.End != "recovered" {
		t.Errorf("%+v", got)
	}
	want := full.Choice.Places[0].Key
	want.Incomplete = got.Choice.Places[0].Incomplete
	if diff := cmp.Diff(want, got.Choice.Places[0].Key); diff != "" || len(want.Incomplete) > 128 {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	if len(full.Choice.Places[0].Incomplete) != len(long) || len(full.Failed) != 5 || full.Reason != long {
		t.Error("the record of the caller was changed")
	}
}

// A record that is too long loses what explains least: the evicted pod and the next one stay, and always the cause.
func TestLog_LongRecordIsShortened(t *testing.T) {
	l := &evictionlog.Log{}
	for about, test := range map[string]struct {
		name   int // length of the names of other pods
		places int
	}{
		"many others": {100, 2},
		"huge names":  {1500, 0},
	} {
		r := eviction("a/x", 1)
		r.Reason = "why"
		r.Choice = &decisionlog.Choice{Cause: "memory.available"}
		for i := range 100 {
			r.Choice.Places = append(r.Choice.Places, decisionlog.Place{Place: i + 1, Pod: strings.Repeat("p", test.name), UID: strings.Repeat("u", test.name)})
		}
		r.Choice.Places[50].Pod, r.Choice.Places[50].UID = r.Pod, r.UID
		put(t, l, r)
		records, _ := l.Records()
		got := records[0]
		if got.Reason != "why" || got.Choice == nil || got.Choice.Cause != "memory.available" || len(got.Choice.Places) != test.places {
			t.Errorf("%s: %+v", about, got)
		}
		if test.places > 0 && (got.Choice.Places[0].Place != 51 || got.Choice.Places[1].Place != 52) {
			t.Errorf("%s: %+v", about, got.Choice.Places)
		}
		if len(r.Choice.Places) != 100 {
			t.Errorf("%s: the record of the caller was changed", about)
		}
	}
	for _, bad := range []*decisionlog.Record{eviction(strings.Repeat("p", 4000), 1), {Time: noon}, {Pod: "a/x"}} {
		if err := l.Put(bad); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20s: %v", bad.Pod, err)
		}
	}
	if l.Len() != 1 {
		t.Errorf("%d lines", l.Len())
	}
}

// A stolen token of a node writes what it likes into the record of that node.
func TestLog_TextsAreSafeForTerminal(t *testing.T) {
	const bad = "x\n2026 y\x1b[2J\u202e"
	r := &decisionlog.Record{Time: noon, Decision: bad, Conditions: []string{}, Pod: bad, UID: bad, Reason: bad, Message: bad, End: bad, Threshold: bad, Signal: bad, Check: bad,
		LimitedBy: bad, KubeletWouldEvict: bad, GrewMost: bad, Failed: []decisionlog.PodReason{{Pod: bad, Reason: bad}},
		WokenBy: []string{bad}, Met: []string{bad}, Unknown: []string{bad}, Reclaimed: []string{bad}, Unmeasured: []string{bad},
		Ranking: []decisionlog.PodReason{{Pod: bad, Reason: bad}}, Stalls: []decisionlog.PodReason{{Pod: bad, Reason: bad}},
		Consumers: []signals.Consumer{{Name: bad, Kind: bad, Pod: bad, Incomplete: bad}},
		Choice:    &decisionlog.Choice{Cause: bad, Kubelet: bad, Places: []decisionlog.Place{{Pod: bad, UID: bad, Open: bad, Passed: bad, Key: ranking.Key{Incomplete: bad}}}}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	l := evictionlog.Parse(string(text))
	records, _ := l.Records()
	shown := fmt.Sprintf("%+v %+v %+v", records[0], *records[0].Choice, records[0].Choice.Places)
	if strings.ContainsAny(shown, "\n\x1b\u202e") || strings.Count(shown, "x?2026 y?[2J?") < 19 {
		t.Errorf("%q", shown)
	}
	if l.String() != string(text)+"\n" {
		t.Error("the line is changed")
	}
}

// However long the texts and lists of a line are, its explanation is short.
func TestLog_ExplanationIsBounded(t *testing.T) {
	const begin = `{"time":"2026-03-01T12:00:00Z","pod":"shop/web","uid":"u","choice":{"cause":"memory.available","places":[`
	long, empty := strings.Repeat("🚢", 16<<10), strings.Repeat(",{}", 5461)
	text := strings.Repeat("🚢", 500)
	all, err := json.Marshal(&decisionlog.Record{Time: noon, Decision: decisionlog.Verb(text), Conditions: slices.Repeat([]string{text}, 100), Pod: text, UID: text, Signal: text,
		Threshold: text, Check: text, Reason: text, Message: text, End: text, LimitedBy: text, KubeletWouldEvict: text, GrewMost: text,
		Failed: slices.Repeat([]decisionlog.PodReason{{Pod: text, Reason: text}}, 100),
		Choice: &decisionlog.Choice{Cause: text, Kubelet: text, Places: slices.Repeat([]decisionlog.Place{
			{Pod: text, UID: text, Open: text, Passed: text, Key: ranking.Key{Incomplete: text}}}, 100)}})
	if err != nil {
		t.Fatal(err)
	}
	for about, line := range map[string]string{
		"a long place, and many": begin + `{"pod":"` + long + `"}` + empty + `]}}`,
		"many, and a long place": begin + `{}` + empty + `,{"pod":"` + long + `"}]}}`,
		"the name of its pod":    `{"time":"2026-03-01T12:00:00Z","pod":"` + strings.Repeat("x", 32_000) + `"}`,
		"every text":             string(all),
	} {
		records, unreadable := evictionlog.Parse(line).Records()
		if len(records) != 1 || unreadable != 0 {
			t.Fatalf("%s: %d records, %d unreadable", about, len(records), unreadable)
		}
		r := &records[0]
		x := why.Explain("node-1", r)
		if n := len(x.Text()); n > 32<<10 || len(r.Pod) > 320 {
			t.Errorf("%s: %d bytes, of a pod with a name of %d bytes", about, n, len(r.Pod))
		}
		if encoded, err := json.Marshal(&x); err != nil || len(encoded) > 64<<10 {
			t.Errorf("%s: %d bytes of JSON, %v", about, len(encoded), err)
		}
	}
}

// Whatever a ConfigMap holds is read without a panic, and written again as it was.
func FuzzParse(f *testing.F) {
	valid, _ := json.Marshal(eviction("a/x", 1))
	f.Add(string(valid) + "\n{\n\n")
	f.Add(`{"pod":"/","time":"2026-03-01T12:00:00Z","choice":{"cause":"x","places":[{}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		l := evictionlog.Parse(text)
		before := l.String()
		if records, unreadable := l.Records(); len(records)+unreadable != l.Len() {
			t.Errorf("%d records and %d others of %d lines", len(records), unreadable, l.Len())
		}
		if _, err := l.Trim(noon); err == nil && len(l.String()) > evictionlog.MaxBytes {
			t.Errorf("%d bytes", len(l.String()))
		}
		if evictionlog.Parse(before).String() != before {
			t.Errorf("read again, %q differs", before)
		}
	})
}
