package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/ranking"
)

// attacks are texts that a report must not interpret.
var attacks = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg/onload=alert(1)>`, `</title><script>x</script>`, `</style><script>x</script>`, `</svg><a href="javascript:x">`,
	`&lt;b&gt;&amp;`, `{{.Title}}`, `{{template "page"}}`, `]]>`, `<!--`, `-->`, `<![CDATA[`, `<?xml?>`, "javascript:alert(1)", "data:text/html,x",
	"`code`", "``` \n# heading", "| a | b |", "[link](http://example.com)", "![x](http://example.com/x.png)", "<http://example.com>", "**bold** _it_ ~~x~~", "@everyone", "\\|", "\n\n# heading\n", "- item", "\r\n",
	"\x00\x01\x02\x03\x1b[2J", "\x02quoted\x03", "\u202egnp.exe", "\u2028\u2029", "\ufeff", "\xff\xfe", "\ufffd", "a\u0300\u0301\u0302", "\U000e0041", "\uffff",
}

// benign has the place of an attack in the same report.
const benign = "a name"

// attacked returns a recording in which every text is the given one.
func attacked(tb testing.TB, text string) []byte {
	tb.Helper()
	h := header()
	h.Version, h.Node, h.Kernel, h.BootID, h.Revision = text, text, text, text, text
	pod := func(n string) *signals.Pod {
		return &signals.Pod{UID: n, Namespace: text, Name: text, Priority: int32(n[0]), MemoryRequest: signals.Quantity{Value: 5, Text: text}, Containers: []signals.Container{{Name: text}}, HostPaths: []string{text}}
	}
	a, b := pod("a"), pod("b")
	c := evicting(check(30, 50*mib), b, candidate(a, 2*mib), candidate(b, 3*mib))
	c.Act.Evicted.Message, c.Act.Blocked, c.Act.Limit = text, text, text
	c.Act.Failed = []recording.Failed{{Pod: a, Error: text}}
	c.Act.Measured[0][0].Usage.OtherLayers.Incomplete = text
	limit := evicting(check(31, 50*mib), a, candidate(a, mib))
	limit.Act.Acted, limit.Act.Evicted.Cause, limit.Act.Evicted.Message = false, text, text
	blind := check(32, 1<<30)
	blind.Snapshot.Node[signals.PIDAvailable] = signals.Unknown(text)
	blind.Unknown.Add(signals.PIDAvailable)
	first := usage(2, 0, used(a, mib, 0), used(b, 2*mib, 0))
	second := usage(12, 5, used(a, mib, 2), used(b, 2*mib, 0))
	second.Gone = []recording.Gone{{Pod: pod("c"), End: recording.EndEvicted}}
	list := []any{keys{"pod": text, "reason": text}, keys{"pod": text + "/" + text, "reason": text}}
	line := func(seconds float64, verb string) *recording.Decision {
		return logged(tb, seconds, keys{"decision": verb, "check": text, "reason": text, "signal": text, "threshold": text, "pod": text, "uid": text, "message": text, "ranking": list, "failed": list, "stalls": list,
			"conditions": []string{text}, "unknown": []string{text}, "limitedBy": text, "kubeletWouldEvict": text, "status": text, "processes": 3,
			"choice": &decisionlog.Choice{Cause: text, Kubelet: text + "x", Pods: 2, Places: []decisionlog.Place{
				{Place: 1, Pod: text + "/" + text, UID: "other", Passed: text, Open: text + "y", Key: ranking.Key{Incomplete: text}}, {Place: 2, Pod: text, UID: text}, {Place: 3, Pod: text + "/z", UID: "last"}}},
			"heldMost": text, "grewMost": text, "kills": 1})
	}
	return recorded(tb, h, check(0, 1<<30), first, check(10, 1<<30), second, line(13, "evict"), line(14, "reclaim-done"), line(15, "oom-kill"), line(16, "conditions"), line(17, "signals"), line(18, "stall"), line(19, "none-helps"),
		line(20, "other"), line(21, text+"x"), c, limit, blind)
}

// skeleton returns the elements of a document with the names of their attributes, and the attributes other
// than places. The document must be well-formed.
func skeleton(tb testing.TB, text string) string {
	tb.Helper()
	var b strings.Builder
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			tb.Fatalf("malformed: %v\n%s", err, text)
		}
		switch found := token.(type) {
		case xml.StartElement:
			b.WriteString("<" + found.Name.Local)
			for _, a := range found.Attr {
				b.WriteString(" " + a.Name.Local)
				switch a.Name.Local {
				case "class", "id", "role", "href", "src", "style", "scope", "aria-labelledby":
					b.WriteString("=" + a.Value)
				}
			}
			b.WriteString(">\n")
		case xml.EndElement:
			b.WriteString("</" + found.Name.Local + ">\n")
		case xml.Comment:
			b.WriteString("comment\n")
		case xml.ProcInst:
			b.WriteString("instruction\n")
		}
	}
}

var codeSpan = regexp.MustCompile("`[^`\n]*`")

// checkHostile compares the report of hostile texts with the skeletons of that with benign ones.
func checkHostile(t *testing.T, about, text string, want map[string]string) {
	t.Helper()
	i := read(t, attacked(t, text), Options{})
	for form, got := range forms(t, i) {
		for _, r := range got {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%s: %s has the character %U", about, form, r)
			}
		}
		if !utf8.ValidString(got) {
			t.Errorf("%s: %s is not valid UTF-8", about, form)
		}
		switch form {
		case "html":
			if is := skeleton(t, got); is != want[form] {
				t.Fatalf("%s: the page has other elements:\n%s", about, firstDifference(is, want[form]))
			}
		case "md":
			if is := codeSpan.ReplaceAllString(got, ""); is != want[form] {
				t.Fatalf("%s: the Markdown has text outside of code:\n%s", about, firstDifference(is, want[form]))
			}
		case "svg": // a longer text has more lines
			if is := withoutTexts(skeleton(t, got)); is != want[form] {
				t.Fatalf("%s: the picture has other elements:\n%s", about, firstDifference(is, want[form]))
			}
		}
	}
}

// withoutTexts removes the texts of a picture and the places that depend on their number.
func withoutTexts(elements string) string {
	return regexp.MustCompile("(?m)^</?text.*\n").ReplaceAllString(elements, "")
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for n := range min(len(a), len(b)) {
		if a[n] != b[n] {
			return fmt.Sprintf("line %d: %.300q, want %.300q", n+1, a[n], b[n])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// expected are the skeletons of the report with benign texts.
func expected(tb testing.TB) map[string]string {
	all := forms(tb, read(tb, attacked(tb, benign), Options{}))
	return map[string]string{"html": skeleton(tb, all["html"]), "md": codeSpan.ReplaceAllString(all["md"], ""), "svg": withoutTexts(skeleton(tb, all["svg"]))}
}

// No text of a recording becomes an element, an attribute, or text outside of its place.
func TestForms_InterpretNoText(t *testing.T) {
	want := expected(t)
	for _, text := range attacks {
		checkHostile(t, fmt.Sprintf("%q", text), text, want)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var b bytes.Buffer
		for range 1 + r.IntN(12) {
			if r.IntN(3) == 0 {
				b.WriteByte(byte(r.IntN(256)))
			} else {
				b.WriteString(attacks[r.IntN(len(attacks))])
			}
		}
		checkHostile(t, fmt.Sprintf("seed %d", seed), b.String()+"z", want) // no empty text
	}
}

func TestForms_AreDeterministic(t *testing.T) {
	for _, data := range [][]byte{leak(t), attacked(t, benign)} {
		first := forms(t, read(t, data, Options{}))
		for range 5 {
			for form, text := range forms(t, read(t, data, Options{})) {
				if text != first[form] {
					t.Fatalf("%s: the same recording has another report: %s", form, firstDifference(text, first[form]))
				}
			}
		}
	}
}

// A recording with damage anywhere is reported, or rejected, without a panic and within the bound.
func TestForms_OfDamagedRecordings(t *testing.T) {
	data := leak(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		damaged := bytes.Clone(data)
		for range 1 + r.IntN(3) {
			damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
		}
		i, err := Read(damaged[:1+r.IntN(len(damaged))], Options{})
		if err != nil {
			if !errors.Is(err, recording.ErrNoRecording) && !errors.Is(err, ErrNothing) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		for form, text := range forms(t, i) {
			if form != "md" {
				skeleton(t, text)
			}
		}
	}
}

// maxReport is the maximum size of a report in any form.
const maxReport = 4 << 20

func TestTexts_AreBounded(t *testing.T) {
	for form, text := range forms(t, read(t, attacked(t, strings.Repeat("W", 5000)), Options{})) {
		longest := 0
		for _, run := range regexp.MustCompile("W+").FindAllString(text, -1) {
			longest = max(longest, len(run))
		}
		if longest == 0 || longest > 512 {
			t.Errorf("%s: a text of %d characters, want at most 512", form, longest)
		}
	}
}

// A recording of any size has a report of bounded size, also if every text is as long and as hostile as it
// may be.
func TestForms_AreBounded(t *testing.T) {
	long := strings.Repeat(`"<&'>`, 120)
	h := header()
	h.Version, h.Node, h.Kernel = long, long, long
	pods := make([]*signals.Pod, 60)
	for n := range pods {
		pods[n] = &signals.Pod{UID: numbered("u", n), Namespace: long[:100], Name: numbered(long[:300], n)}
	}
	list := make([]any, maxListed+2)
	for n := range list {
		list[n] = keys{"pod": long, "reason": long}
	}
	choice := &decisionlog.Choice{Cause: long, Kubelet: long, Places: make([]decisionlog.Place, maxListed+2)}
	for n := range choice.Places {
		choice.Places[n] = decisionlog.Place{Pod: long, UID: long, Open: long, Passed: long, Key: ranking.Key{Incomplete: long + "x"}}
	}
	var data []byte
	for segment := range 4 {
		h.Segment = uint64(segment)
		var values []any
		for k := range 60 {
			seconds := float64(segment*1000 + 10*k)
			u := usage(seconds+1, int64(k))
			for n, p := range pods {
				u.Pods = append(u.Pods, used(p, int64(1+n)*mib*int64(1+k%7), int64(k)))
			}
			if k%10 == 0 {
				u.Gone = []recording.Gone{{Pod: pods[k%60], End: recording.EndEvicted}}
			}
			pod := pods[(segment+k)%60]
			c := evicting(check(seconds, 50*mib), pod, candidate(pods[0], mib), candidate(pods[1], mib), candidate(pod, mib))
			c.Act.Evicted.Message = long
			values = append(values, c, u,
				logged(t, seconds+2, keys{"decision": "oom-kill", "reason": long, "pod": long, "heldMost": long, "grewMost": long}),
				logged(t, seconds+3, keys{"decision": "evict", "reason": long, "pod": numbered(long, k), "uid": numbered("x", k), "message": long, "ranking": list, "failed": list, "signal": long, "choice": choice}),
				logged(t, seconds+4, keys{"decision": numbered("d", k), "reason": long, "pod": numbered(long, k), "stalls": list, "unknown": []string{long, long}}))
		}
		data = append(data, recorded(t, h, values...)...)
	}
	i := read(t, data, Options{})
	for form, text := range forms(t, i) {
		t.Logf("%s: %d bytes of a recording of %d", form, len(text), len(data))
		if len(text) > maxReport {
			t.Errorf("%s: %d bytes, want at most %d", form, len(text), maxReport)
		}
	}
	if i.evictions.count() < 400 || i.kills.count() < 240 || i.gaps.count() < 3 {
		t.Errorf("%d evictions, %d kills, %d gaps", i.evictions.count(), i.kills.count(), i.gaps.count())
	}
}

// A header has room for a configuration with 100,000 unknown fields. Each of them was a fault with all valid fields in its
// text.
func TestForms_AreBoundedForLargeConfiguration(t *testing.T) {
	var fields strings.Builder
	for n := range 104_000 {
		fmt.Fprintf(&fields, `,"%05x":0`, n)
	}
	h := header()
	h.Config = json.RawMessage("{" + fields.String()[1:] + "}")
	data := recorded(t, h, check(0, 1<<30))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i := read(t, data, Options{})
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 64 {
		t.Errorf("a configuration of %d bytes: %d MiB are allocated", len(h.Config), allocated)
	}
	if missing := strings.Join(i.missing().List, "\n"); !strings.Contains(missing, "it is larger than 131072 bytes") {
		t.Errorf("missing %q", missing)
	}
	for form, text := range forms(t, i) {
		if len(text) > maxReport {
			t.Errorf("%s: %d bytes, want at most %d", form, len(text), maxReport)
		}
	}
}

// The report of an hour near a threshold, with 110 pods, is small enough to be sent.
func TestForms_OfAnHour(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pods := make([]*signals.Pod, 110)
	for n := range pods {
		pods[n] = podOf(fmt.Sprintf("deployment-%d-7b9f8c6d5-abcde", n), 100*mib)
	}
	var values []any
	for k := range 3600 {
		values = append(values, check(float64(k), signals.Amount(90+r.IntN(200))*mib))
		if k%2 == 0 {
			u := usage(float64(k)+0.5, 0)
			for _, p := range pods {
				u.Pods = append(u.Pods, used(p, r.Int64N(200*mib), 0))
			}
			values = append(values, u)
		}
	}
	for form, text := range forms(t, read(t, recorded(t, header(), values...), Options{})) {
		t.Logf("%s: %d bytes", form, len(text))
		if len(text) > 256<<10 {
			t.Errorf("%s: %d bytes, want at most 256 KiB", form, len(text))
		}
	}
}

func TestLine_UnreadableKeysAreNoFault(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `{"decision":7}`, `{"decision":"evict","processes":1e99}`, `null`, `"x"`, `{"decision":"evict","ranking":{}}`} {
		i := read(t, recorded(t, header(), check(0, 1<<30), &recording.Decision{At: at(1), Line: json.RawMessage(text)}), Options{})
		if i.decisions.count() != 0 || len(i.missing().List) == 0 {
			t.Errorf("%s: %d decisions, missing %q", text, i.decisions.count(), i.missing().List)
		}
	}
	for _, ms := range []string{"-1", "1e300", "1e11"} {
		i := read(t, recorded(t, header(), &recording.Decision{At: at(1), Line: json.RawMessage(`{"decision":"evict","processes":1,"killMillis":` + ms + `}`)}), Options{})
		forms(t, i)
	}
}

// UIDs are kept for each pod, so that longer ones than any of Kubernetes are cut.
func TestUIDOf_IsBounded(t *testing.T) {
	if uid := "0d7a0d4e-4a5b-4d6c-9e0f-1f2a3b4c5d6e"; uidOf(uid) != uid {
		t.Errorf("%s is %s", uid, uidOf(uid))
	}
	if n := len(uidOf(strings.Repeat("u", 32<<10))); n != maxNote {
		t.Errorf("%d bytes, want %d", n, maxNote)
	}
}
