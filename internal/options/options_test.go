package options_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// sample is a configuration with an option of each shape.
type sample struct {
	name    string
	count   int64
	enabled bool
	ports   []string
	limits  options.Map
	labels  options.Map
	gates   options.Map
	options.Endpoints
	options.Origins
}

var samples = options.Table[sample]{
	Kind: "Sample",
	Options: append([]options.Option[sample]{
		{Field: "name", Live: true, Flag: "name", Default: "none", Help: "a|b", Set: options.String(func(v *sample) *string { return &v.name })},
		{Field: "count", Flag: "v", Default: "7", Help: "number", Set: options.Integer(func(v *sample) *int64 { return &v.count })},
		{Field: "enabled", Flag: "enabled", Shape: options.Boolean, Help: "whether", Bool: func(v *sample) *bool { return &v.enabled }},
		{Field: "ports", Flag: "ports", Shape: options.List, Help: "in order", List: func(v *sample) *[]string { return &v.ports }},
		{Field: "limits", Live: true, Flag: "limits", Shape: options.LessMap, Help: "limits", Map: func(v *sample) *options.Map { return &v.limits }},
		{Field: "labels", Flag: "-", Shape: options.EqualMap, Help: "by kind", Map: func(v *sample) *options.Map { return &v.labels }},
		{Field: "gates", Flag: "gates", Shape: options.GateMap, Help: "by name", Map: func(v *sample) *options.Map { return &v.gates }},
	}, options.EndpointOptions(func(v *sample) *options.Endpoints { return &v.Endpoints })...),
	Defaults: func() *sample { return &sample{name: "none", count: 7, Origins: options.Origins{}} },
	Origins:  func(v *sample) options.Origins { return v.Origins },
	Validate: func(v *sample, faults *strictyaml.Faults) {
		v.Endpoints.Validate(v.Where, faults)
		if v.count < 0 {
			faults.Add(v.Where("count"), fmt.Sprint(v.count), "must not be negative")
		}
	},
}

// load returns the configuration of a file and a command line.
func load(t *testing.T, file string, args ...string) (*sample, error) {
	t.Helper()
	set := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags := samples.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sample.yaml")
	if err := os.WriteFile(path, []byte(options.FileHead("Sample")+file), 0o600); err != nil {
		t.Fatal(err)
	}
	return samples.Load(path, flags)
}

func TestTable_LoadOverridesDefaultsByFileByFlags(t *testing.T) {
	v, err := load(t, "count: 9\nports: [a]\nlimits: {x: 1, y: 2}\nlabels: {app: 3}\ngates: {A: true}\nhealthSocket: /a\n",
		"--enabled", "--ports=b, c", "--ports=d", "--limits=x<5", "--health-socket=/b")
	if err != nil {
		t.Fatal(err)
	}
	if v.name != "none" || v.count != 9 || !v.enabled || !slices.Equal(v.ports, []string{"b", "c", "d"}) || v.HealthSocket != "/b" {
		t.Errorf("%+v", v)
	}
	for name, got := range map[string]bool{
		"map replaced by a flag": slices.Equal(v.limits.Settings, []options.Setting{{Key: "x", Text: "5", Where: "--limits x"}}),
		"map of the file":        slices.Equal(v.labels.Settings, []options.Setting{{Key: "app", Text: "3", Where: "labels.app"}}),
		"gate of the file":       slices.Equal(v.gates.Settings, []options.Setting{{Key: "A", Text: "true", Where: "gates.A"}}),
		"Where":                  v.Where("ports") == "--ports" && v.Where("count") == "count" && v.Where("name") == "name",
		"Given":                  v.Given("ports") && v.Given("count") && !v.Given("name"),
	} {
		if !got {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if _, found := v.limits.Get("y"); found || !v.limits.Set {
		t.Errorf("the entry of the file remains: %+v", v.limits)
	}
}

func TestTable_LoadReportsAllFaults(t *testing.T) {
	_, err := load(t, "count: -1\nenabled: 7\ngates: {A: 1}\ncolour: red\ntlsCertFile: /a\n", "--ports=x", "--limits=a,b<1,b<2", "--gates=A")
	want := []string{"colour: ", "enabled: ", "gates.A: ", "--limits: a: must be written as key<value", "--limits: b<2: b is given twice",
		"--gates: A: must be written as key=value", "tlsCertFile: /a: needs tlsPrivateKeyFile", "count: -1: must not be negative"}
	var faults strictyaml.Faults
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("%d faults, want %d: %v", len(faults), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(faults[i].Error(), w) {
			t.Errorf("fault %d is %v, want %s", i, faults[i], w)
		}
	}
	if _, err := samples.Load(filepath.Join(t.TempDir(), "none.yaml"), &options.Flags{}); err == nil || errors.As(err, new(strictyaml.Faults)) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := samples.Parse([]byte("apiVersion: v1\nkind: Other\n")); err == nil || err.Error() != "apiVersion: \"v1\": must be plimsoll.dev/v1alpha1\nkind: \"Other\": must be Sample" {
		t.Errorf("file of another kind: %v", err)
	}
}

func TestTable_ReadFieldsRejectsOtherOptions(t *testing.T) {
	var faults strictyaml.Faults
	v := samples.Defaults()
	samples.ReadFields(v, samples.Options[:2], strictyaml.Parse([]byte("{count: -3, enabled: true}"), &faults))
	if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), "enabled: ") || v.count != -3 || v.enabled || v.Where("count") != "count" {
		t.Errorf("%+v, %v", v, faults)
	}
}

func TestKindOf_ListsKnownKinds(t *testing.T) {
	for text, want := range map[string]struct{ kind, fault string }{
		"kind: Sample\ncolour: red":    {"Sample", ""},
		"kind: Other":                  {"Other", ""},
		"kind: Missing\ncount: 1":      {"", `kind: "Missing": must be Sample or Other`},
		"count: 1":                     {"", "kind: required, but left out"},
		"kind: Missing\ncolour: green": {"", `colour: "green": unknown field`},
		"[":                            {"", "not valid YAML"},
	} {
		kind, err := options.KindOf([]byte(text), []string{"Sample", "Other"}, samples.Fields())
		if kind != want.kind || (err == nil) != (want.fault == "") || err != nil && !strings.Contains(err.Error(), want.fault) {
			t.Errorf("%s: %q, %v", text, kind, err)
		}
	}
}

// The tests of both programs cover these setters with their options, too.
func TestSetters_RetainValueOnError(t *testing.T) {
	type all struct {
		text string
		n    int64
		f    float64
		d    time.Duration
	}
	before := all{"before", 42, 42, 42}
	text, n := func(a *all) *string { return &a.text }, func(a *all) *int64 { return &a.n }
	f, d := func(a *all) *float64 { return &a.f }, func(a *all) *time.Duration { return &a.d }
	for _, tc := range []struct {
		name   string
		set    options.Setter[all]
		faulty []string
		given  string
		want   all
	}{
		{"OneOf", options.OneOf(text, "a", "b"), []string{"", "A", "c"}, "b", all{"b", 42, 42, 42}},
		{"Integer", options.Integer(n), []string{"", "1.5", "2147483648", "-2147483649"}, "-2147483648", all{"before", -2147483648, 42, 42}},
		{"Count", options.Count(n), []string{"-1", "1e3"}, "2147483647", all{"before", 2147483647, 42, 42}},
		{"Duration", options.Duration(d), []string{"", "5"}, "-2562047h47m16.854775808s", all{"before", 42, 42, -1 << 63}},
		{"NonNegativeDuration", options.NonNegativeDuration(d), []string{"-1ns"}, "0", all{"before", 42, 42, 0}},
		{"PositiveDuration", options.PositiveDuration(d), []string{"0s", "-1s"}, "1ns", all{"before", 42, 42, 1}},
		{"Rate", options.Rate(f), []string{"", "-1", "9e-7", "1000001", "NaN", "Inf"}, "1e-6", all{"before", 42, 1e-6, 42}},
		{"OptionalRate", options.OptionalRate(f), []string{"-1", "9e-7"}, "", all{"before", 42, -1, 42}},
		{"ClientQPS", options.ClientQPS(f), []string{"", "-Inf", "NaN", "1e7"}, "0", all{"before", 42, 5, 42}},
		{"ClientBurst", options.ClientBurst(n), []string{"", "-1"}, "0", all{"before", 10, 42, 42}},
		{"Fraction", options.Fraction(f), []string{"-0.1", "1.1", "50%"}, "1", all{"before", 42, 1, 42}},
		{"Ratio", options.Ratio(f), []string{"-0.1", "Inf"}, "1.5", all{"before", 42, 1.5, 42}},
		{"DNSLabel", options.DNSLabel(text), []string{"", "A", "a.b", strings.Repeat("a", 64)}, "a-1", all{"a-1", 42, 42, 42}},
		{"OptionalDNSLabel", options.OptionalDNSLabel(text), []string{"A"}, "", all{"", 42, 42, 42}},
		{"ListenAddress", options.ListenAddress(text), []string{"localhost:1", ":1", "127.0.0.1"}, "[::1]:1", all{"[::1]:1", 42, 42, 42}},
		{"SocketPath", options.SocketPath(text), []string{"a", "/a/", "/" + strings.Repeat("a", 107)}, "/a", all{"/a", 42, 42, 42}},
	} {
		got := before
		for _, faulty := range tc.faulty {
			if problem := tc.set(&got, faulty); !strings.HasPrefix(problem, "must be ") || got != before {
				t.Errorf("%s: %q: problem %q, stored %+v", tc.name, faulty, problem, got)
			}
		}
		if problem := tc.set(&got, tc.given); problem != "" || got != tc.want {
			t.Errorf("%s: %q: problem %q, stored %+v", tc.name, tc.given, problem, got)
		}
	}
}

func TestRows_FollowTheShape(t *testing.T) {
	rows := options.Rows(samples.Options)
	for _, want := range []string{"| `name` | `--name=…` | `none` | yes | a\\|b |\n", "| `count` | `-v …` | `7` | restart | number |\n", "| `enabled` | `--enabled` | empty | restart | whether |\n",
		"| `limits` | `--limits=key<value,…` |", "| `labels` | none |", "| `gates` | `--gates=key=bool,…` |", "| `ports` | `--ports=a,b` |"} {
		if !strings.Contains(rows, want) {
			t.Errorf("no %q in\n%s", want, rows)
		}
	}
}
