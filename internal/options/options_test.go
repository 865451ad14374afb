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

// vessel is a configuration with an option of each shape.
type vessel struct {
	name    string
	hold    int64
	anchor  bool
	ports   []string
	draught options.Map
	cargo   options.Map
	gates   options.Map
	options.Endpoints
	options.Origins
}

var vessels = options.Table[vessel]{
	Kind: "Vessel",
	Options: append([]options.Option[vessel]{
		{Field: "name", Flag: "name", Default: "none", Help: "a|b", Set: options.String(func(v *vessel) *string { return &v.name })},
		{Field: "hold", Flag: "v", Default: "7", Help: "tons", Set: options.Integer(func(v *vessel) *int64 { return &v.hold })},
		{Field: "anchor", Flag: "anchor", Shape: options.Boolean, Help: "whether", Bool: func(v *vessel) *bool { return &v.anchor }},
		{Field: "ports", Flag: "ports", Shape: options.List, Help: "in order", List: func(v *vessel) *[]string { return &v.ports }},
		{Field: "draught", Flag: "draught", Shape: options.LessMap, Help: "limits", Map: func(v *vessel) *options.Map { return &v.draught }},
		{Field: "cargo", Flag: "-", Shape: options.EqualMap, Help: "by kind", Map: func(v *vessel) *options.Map { return &v.cargo }},
		{Field: "gates", Flag: "gates", Shape: options.GateMap, Help: "by name", Map: func(v *vessel) *options.Map { return &v.gates }},
	}, options.EndpointOptions(func(v *vessel) *options.Endpoints { return &v.Endpoints })...),
	Defaults: func() *vessel { return &vessel{name: "none", hold: 7, Origins: options.Origins{}} },
	Origins:  func(v *vessel) options.Origins { return v.Origins },
	Validate: func(v *vessel, faults *strictyaml.Faults) {
		v.Endpoints.Validate(v.Where, faults)
		if v.hold < 0 {
			faults.Add(v.Where("hold"), fmt.Sprint(v.hold), "must float")
		}
	},
}

// load returns the configuration of a file and a command line.
func load(t *testing.T, file string, args ...string) (*vessel, error) {
	t.Helper()
	set := pflag.NewFlagSet("vessel", pflag.ContinueOnError)
	flags := vessels.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vessel.yaml")
	if err := os.WriteFile(path, []byte(options.FileHead("Vessel")+file), 0o600); err != nil {
		t.Fatal(err)
	}
	return vessels.Load(path, flags)
}

func TestTable_LoadOverridesDefaultsByFileByFlags(t *testing.T) {
	v, err := load(t, "hold: 9\nports: [a]\ndraught: {x: 1, y: 2}\ncargo: {tea: 3}\ngates: {A: true}\nhealthSocket: /a\n",
		"--anchor", "--ports=b, c", "--ports=d", "--draught=x<5", "--health-socket=/b")
	if err != nil {
		t.Fatal(err)
	}
	if v.name != "none" || v.hold != 9 || !v.anchor || !slices.Equal(v.ports, []string{"b", "c", "d"}) || v.HealthSocket != "/b" {
		t.Errorf("%+v", v)
	}
	for about, is := range map[string]bool{
		"a flag replaces the whole map": slices.Equal(v.draught.Settings, []options.Setting{{Key: "x", Text: "5", Where: "--draught x"}}),
		"a map of the file":             slices.Equal(v.cargo.Settings, []options.Setting{{Key: "tea", Text: "3", Where: "cargo.tea"}}),
		"a gate of the file":            slices.Equal(v.gates.Settings, []options.Setting{{Key: "A", Text: "true", Where: "gates.A"}}),
		"Where":                         v.Where("ports") == "--ports" && v.Where("hold") == "hold" && v.Where("name") == "name",
		"Given":                         v.Given("ports") && v.Given("hold") && !v.Given("name"),
	} {
		if !is {
			t.Errorf("%s: %+v", about, v)
		}
	}
	if _, found := v.draught.Get("y"); found || !v.draught.Set {
		t.Errorf("the file's entry is left: %+v", v.draught)
	}
}

func TestTable_LoadReportsAllFaults(t *testing.T) {
	_, err := load(t, "hold: -1\nanchor: 7\ngates: {A: 1}\ncolour: red\ntlsCertFile: /a\n", "--ports=x", "--draught=a,b<1,b<2", "--gates=A")
	want := []string{"colour: ", "anchor: ", "gates.A: ", "--draught: a: must be written as key<value", "--draught: b<2: b is given twice",
		"--gates: A: must be written as key=value", "tlsCertFile: /a: needs tlsPrivateKeyFile", "hold: -1: must float"}
	var faults strictyaml.Faults
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("%d faults, want %d: %v", len(faults), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(faults[i].Error(), w) {
			t.Errorf("fault %d is %v, want %s", i, faults[i], w)
		}
	}
	if _, err := vessels.Load(filepath.Join(t.TempDir(), "none.yaml"), &options.Flags{}); err == nil || errors.As(err, new(strictyaml.Faults)) {
		t.Errorf("a file that there is not: %v", err)
	}
	if _, err := vessels.Parse([]byte("apiVersion: v1\nkind: Raft\n")); err == nil || err.Error() != "apiVersion: \"v1\": must be plimsoll.dev/v1alpha1\nkind: \"Raft\": must be Vessel" {
		t.Errorf("a file of another kind: %v", err)
	}
}

func TestTable_ReadFieldsRefusesOtherOptions(t *testing.T) {
	var faults strictyaml.Faults
	v := vessels.Defaults()
	vessels.ReadFields(v, vessels.Options[:2], strictyaml.Parse([]byte("{hold: -3, anchor: true}"), &faults))
	if len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), "anchor: ") || v.hold != -3 || v.anchor || v.Where("hold") != "hold" {
		t.Errorf("%+v, %v", v, faults)
	}
}

func TestKindOf_NamesTheKinds(t *testing.T) {
	for text, want := range map[string]struct{ kind, fault string }{
		"kind: Vessel\ncolour: red":  {"Vessel", ""},
		"kind: Raft":                 {"Raft", ""},
		"kind: Canoe\nhold: 1":       {"", `kind: "Canoe": must be Vessel or Raft`},
		"hold: 1":                    {"", "kind: required, but left out"},
		"kind: Canoe\ncolour: green": {"", `colour: "green": unknown field`},
		"[":                          {"", "not valid YAML"},
	} {
		kind, err := options.KindOf([]byte(text), []string{"Vessel", "Raft"}, vessels.Fields())
		if kind != want.kind || (err == nil) != (want.fault == "") || err != nil && !strings.Contains(err.Error(), want.fault) {
			t.Errorf("%s: %q, %v", text, kind, err)
		}
	}
}

// Setters that both programs use are tried with their options, too.
func TestSetters_KeepTheValueOnAFault(t *testing.T) {
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
		is := before
		for _, faulty := range tc.faulty {
			if problem := tc.set(&is, faulty); !strings.HasPrefix(problem, "must be ") || is != before {
				t.Errorf("%s: %q: problem %q, stored %+v", tc.name, faulty, problem, is)
			}
		}
		if problem := tc.set(&is, tc.given); problem != "" || is != tc.want {
			t.Errorf("%s: %q: problem %q, stored %+v", tc.name, tc.given, problem, is)
		}
	}
}

func TestRows_FollowTheShape(t *testing.T) {
	rows := options.Rows(vessels.Options)
	for _, want := range []string{"| `name` | `--name=…` | `none` | a\\|b |\n", "| `hold` | `-v …` | `7` | tons |\n", "| `anchor` | `--anchor` | empty | whether |\n",
		"| `draught` | `--draught=key<value,…` |", "| `cargo` | none |", "| `gates` | `--gates=key=bool,…` |", "| `ports` | `--ports=a,b` |"} {
		if !strings.Contains(rows, want) {
			t.Errorf("no %q in\n%s", want, rows)
		}
	}
}
