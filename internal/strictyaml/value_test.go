package strictyaml_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

func TestParse_ReportsAllFaults(t *testing.T) {
	var faults strictyaml.Faults
	o := strictyaml.Parse([]byte(`
name: 7
size: -5Mi
wait: 5
flag: "yes"
count: 1.5
steps: {a: 1}
speling: x
`), &faults).Object("name", "size", "wait", "flag", "count", "steps", "missing")
	if got := o.Get("name").Text(); got != "7" {
		t.Errorf("number as text: got %q", got)
	}
	o.Get("size").Quantity()
	o.Get("wait").Duration(0)
	o.Get("flag").Bool(false)
	o.Get("count").Int(0)
	o.Get("steps").List()
	o.Need("missing")
	want := []string{
		`speling: "x": unknown field: use one of name, size, wait, flag, count, steps, missing`,
		`size: "-5Mi": must not be negative`,
		`wait: 5: must be a duration with a unit, such as 90s or 1m30s`,
		`flag: "yes": must be true or false`,
		`count: 1.5: must be a whole number`,
		`steps: {"a":1}: must be a list`,
		`missing: required, but left out`,
	}
	if got := strings.Split(faults.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParse_RejectsMalformedDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"two documents":   "a: 1\n---\nb: 2\n",
		"duplicate key":   "a: 1\na: 2\n",
		"tabs":            "a:\n\t- b",
		"not a mapping":   "- a\n- b\n",
		"unclosed braces": `{"a": [1, 2`,
	} {
		t.Run(name, func(t *testing.T) {
			var faults strictyaml.Faults
			strictyaml.Parse([]byte(text), &faults).Object("a", "b")
			if faults.Err() == nil {
				t.Errorf("%q was accepted", text)
			}
		})
	}
	var faults strictyaml.Faults
	if v := strictyaml.Parse([]byte("# only this\n---\na: 1\n---\n"), &faults).Object("a"); faults.Err() != nil || v.Get("a").Int(0) != 1 {
		t.Errorf("one document between separators: %v", faults)
	}
}

func TestValue_IntoDecodesStrictly(t *testing.T) {
	var faults strictyaml.Faults
	doc := strictyaml.Parse([]byte(`
pods:
- metadata: {name: a}
  spec: {containers: [{name: app, resources: {requests: {memory: lots}}}], priority: high}
- metadata: {nane: b, annotations: {example.com/x: 5, y: z}}
- metadata: {name: c}
`), &faults).Object("pods")
	for _, v := range doc.Get("pods").List() {
		var pod corev1.Pod
		v.Into(&pod)
	}
	want := []string{
		`pods[0].spec.containers[0].resources.requests.memory: "lots": quantities must match`,
		`pods[0].spec.priority: "high": json: cannot unmarshal string`,
		`pods[1].metadata.annotations[example.com/x]: 5: json: cannot unmarshal number`,
		`pods[1].metadata.nane: "b": unknown field "metadata.nane"`,
	}
	if len(faults) != len(want) {
		t.Fatalf("faults:\n%v", faults)
	}
	for i := range want {
		if !strings.HasPrefix(faults[i].Error(), want[i]) {
			t.Errorf("%s\nwant %s", faults[i], want[i])
		}
	}
}

// A document has any number of faults, and a list of them a bounded one. An object with faults is recognized nevertheless.
func TestFaults_AreBounded(t *testing.T) {
	for _, n := range []int{strictyaml.MaxFaults, strictyaml.MaxFaults + 1, 3 * strictyaml.MaxFaults} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "unknown%d: 1\n", i)
		}
		var faults strictyaml.Faults
		strictyaml.Parse([]byte(text.String()), &faults).Object("a")
		states := strings.HasPrefix(faults[len(faults)-1].Error(), "and more: ")
		if want := min(n, strictyaml.MaxFaults+1); len(faults) != want || states != (n > strictyaml.MaxFaults) {
			t.Errorf("%d faults: %d are listed, want %d, the last one %s", n, len(faults), want, faults[len(faults)-1])
		}
		full := len(faults)
		if strictyaml.Parse([]byte("metadata: {name: 7}"), &faults).Into(&corev1.Pod{}) {
			t.Error("an object with faults is used")
		}
		if faults.Append(faults[0]); n > strictyaml.MaxFaults && len(faults) != full {
			t.Errorf("%d faults in a full list of %d", len(faults), full)
		}
	}
}

func TestValue_AbsentReturnsDefault(t *testing.T) {
	var faults strictyaml.Faults
	o := strictyaml.Parse([]byte("{}"), &faults).Object("a")
	if o.Get("a").Duration(time.Minute) != time.Minute || !o.Get("a").Bool(true) || o.Get("a").Int(3) != 3 || o.Get("a").Present() {
		t.Error("an absent field did not return the default")
	}
	if faults.Err() != nil {
		t.Error(faults)
	}
}

// Quantities that occupy Kubernetes for hours, and those for which its Value returns 0.
func TestValue_RejectsExtremeQuantities(t *testing.T) {
	var faults strictyaml.Faults
	doc := strictyaml.Parse([]byte(`
q: "1.5e-99999999"
huge: 10E
pod:
  metadata: {name: a, labels: {commit: 5e1023456}}
  spec:
    overhead: {memory: 1.5e4096}
    containers: [{name: c, resources: {limits: {cpu: "10000000000000000000000000000000000000000000000000000000000000000"}}}]
    volumes: [{name: v, emptyDir: {sizeLimit: 123456789012345678901234567890e999999}}]
`), &faults).Object("q", "huge", "pod")
	doc.Get("q").Quantity()
	doc.Get("pod").Into(&corev1.Pod{})
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	want := []string{"q", "pod.spec.containers[0].resources.limits.cpu", "pod.spec.overhead.memory", "pod.spec.volumes[0].emptyDir.sizeLimit"}
	if !slices.Equal(paths, want) {
		t.Errorf("faults:\n%v", faults)
	}
	for text, want := range map[string]int64{"10E": 1<<63 - 1, "1e30": 1<<63 - 1, "-1e30": -(1<<63 - 1), "100m": 1, "8Ei": 1<<63 - 1, "9223372036854775806": 1<<63 - 2, "5e3": 5000} {
		q, err := strictyaml.ParseQuantity(text)
		if got := strictyaml.Whole(q); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: 1", "a: {b: [1, 2, {c: d}]}", "---\n---", "a: &x [*x]", "{\"a\": 1e400}", "a: 0x10", "? a\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var faults strictyaml.Faults
		o := strictyaml.Parse(data, &faults).Object("a", "b")
		for _, e := range o.Get("a").Entries() {
			e.Value.Duration(0)
			e.Value.Quantity()
		}
		for _, v := range o.Get("b").List() {
			v.Bool(false)
			v.Int(0)
			v.Into(&corev1.Pod{})
		}
		for _, f := range faults {
			if strings.ContainsRune(f.Error(), '\n') {
				t.Errorf("a fault of more than one line: %q", f.Error())
			}
		}
	})
}
