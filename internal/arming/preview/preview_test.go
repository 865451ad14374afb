package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// node returns a node with an agent that is armed or disarmed for a reason.
func node(name string, armed bool, reason string, findings ...string) clusterstatus.Node {
	return clusterstatus.Node{Name: name, Created: noon.Add(-time.Hour),
		Agent: &clusterstatus.Agent{Version: "v1", Armed: armed, Reason: reason, Findings: findings, Renewed: noon, Duration: 40 * time.Second}}
}

const unset = "dryRun is true, and neither the ConfigMap nor the Node is set to armed"

// with returns a node with a setting.
func with(n clusterstatus.Node, setting, accepted string) clusterstatus.Node {
	n.Arming = arming.Source{Setting: setting, Accepted: accepted}
	return n
}

func TestEffect_OfEachState(t *testing.T) {
	dead, lost := node("n", true, "flag"), node("n", false, unset)
	dead.Agent.Renewed = noon.Add(-41 * time.Second)
	lost.Created = time.Time{}
	accepted := "clock-skew-large"
	for about, tc := range map[string]struct {
		request Request
		node    clusterstatus.Node
		want    Effect
		reason  string
	}{
		"disarmed":                         {Request{Setting: arming.Arm}, node("n", false, unset), Changes, ""},
		"armed":                            {Request{Setting: arming.Arm}, node("n", true, "flag", "right-missing"), Already, ""},
		"findings":                         {Request{Setting: arming.Arm}, node("n", false, unset, "right-missing", "clock-skew-large"), Blocked, "refused: clock-skew-large, right-missing"},
		"accepted by the request":          {Request{Setting: arming.Arm, Accepted: &accepted}, node("n", false, unset, accepted), Changes, ""},
		"accepted by the Node":             {Request{Setting: arming.Arm}, with(node("n", false, unset, accepted), "", accepted), Changes, ""},
		"accepted by the ConfigMap":        {Request{Setting: arming.Arm, ConfigMap: arming.Source{Accepted: accepted}}, node("n", false, unset, accepted), Changes, ""},
		"the request replaces the Node":    {Request{Setting: arming.Arm, Accepted: new(string)}, with(node("n", false, unset, accepted), "", accepted), Blocked, "refused: clock-skew-large"},
		"the ConfigMap disarms":            {Request{Setting: arming.Arm, ConfigMap: arming.Source{Setting: "disarmed"}}, node("n", false, "x"), Blocked, "the ConfigMap plimsoll-arming is set to disarmed"},
		"the ConfigMap is replaced":        {Request{Setting: arming.Arm, All: true, ConfigMap: arming.Source{Setting: "disarmed"}}, node("n", false, "x"), Changes, ""},
		"the Node disarms":                 {Request{Setting: arming.Arm, All: true}, with(node("n", false, "x"), "disarmed", ""), Blocked, "the Node's annotation is set to disarmed"},
		"the Node is replaced":             {Request{Setting: arming.Arm}, with(node("n", false, "x"), "disarmed", ""), Changes, ""},
		"all with a bound: to the Node":    {Request{Setting: arming.Arm, All: true, Max: 1}, with(node("n", false, "x"), "disarmed", ""), Changes, ""},
		"cleanup":                          {Request{Setting: arming.Arm, ConfigMap: arming.Source{Setting: "cleanup"}}, node("n", false, "x"), Blocked, "the ConfigMap plimsoll-arming is set to cleanup"},
		"an unrecognised setting":          {Request{Setting: arming.Arm, ConfigMap: arming.Source{Setting: "on"}}, node("n", false, "x"), Blocked, `the ConfigMap plimsoll-arming is set to "on", which is no setting`},
		"the disarm file":                  {Request{Setting: arming.Arm}, node("n", false, "the disarm file exists"), Blocked, "the disarm file exists"},
		"silent":                           {Request{Setting: arming.Arm}, dead, Silent, ""},
		"without an agent":                 {Request{Setting: arming.Arm}, clusterstatus.Node{Name: "n", Created: noon}, Missing, ""},
		"without a Node":                   {Request{Setting: arming.Arm}, lost, Blocked, "no Node has this name, only the lease of an agent"},
		"without a Node, by the ConfigMap": {Request{Setting: arming.Arm, All: true}, lost, Changes, ""},
		"disarm an armed one":              {Request{Setting: arming.Disarm}, node("n", true, "flag"), Changes, ""},
		"disarm a disarmed one":            {Request{Setting: arming.Disarm}, node("n", false, "the disarm file exists"), Already, ""},
		"disarm a silent one":              {Request{Setting: arming.Disarm}, dead, Silent, ""},
		"clean up an armed one":            {Request{Setting: arming.Cleanup}, node("n", true, "flag"), Changes, ""},
		"clean up a disarmed one":          {Request{Setting: arming.Cleanup}, node("n", false, "the disarm file exists"), Changes, ""},
		"clean up a cleaned-up one":        {Request{Setting: arming.Cleanup}, node("n", false, arming.CleanedUp), Already, ""},
		"clean up a silent one":            {Request{Setting: arming.Cleanup}, dead, Silent, ""},
		"clean up a lease without a Node":  {Request{Setting: arming.Cleanup}, lost, Blocked, "no Node has this name, only the lease of an agent"},
	} {
		p := New(tc.request, []clusterstatus.Node{tc.node}, noon)
		if got := p.Nodes[0]; got.Effect != tc.want || got.Reason != tc.reason {
			t.Errorf("%s: effect %d, %q; want %d, %q", about, got.Effect, got.Reason, tc.want, tc.reason)
		}
	}
}

// Each reason of a local stop is recognised: package arming makes it.
func TestBlocked_ByEveryLocalStop(t *testing.T) {
	for _, w := range []arming.Inputs{{File: arming.Present}, {File: arming.Hidden}, {Signaled: true}} {
		if v := w.Decide(); !arming.IsLocal(v.Reason) {
			t.Errorf("%q is not recognised", v.Reason)
		}
	}
	for _, w := range []arming.Inputs{{DryRun: true}, {}, {Memory: arming.Memory{All: arming.Source{Setting: "disarmed"}}}} {
		if v := w.Decide(); arming.IsLocal(v.Reason) {
			t.Errorf("%q is no stop on the node", v.Reason)
		}
	}
}

// fleet has nodes n-1 to n-12 that would follow, and one of each other effect.
func fleet() (nodes []clusterstatus.Node) {
	for i := 12; i > 0; i-- {
		nodes = append(nodes, node(fmt.Sprintf("n-%d", i), false, unset))
	}
	dead := node("dead", false, unset)
	dead.Agent.Renewed = noon.Add(-time.Hour)
	return append(nodes, dead, clusterstatus.Node{Name: "none", Created: noon}, node("armed", true, "flag"), node("refuses", false, unset, "right-missing"))
}

func TestWrite_SelectsNodes(t *testing.T) {
	const changing = "n-1 n-2 n-3 n-4 n-5 n-6 n-7 n-8 n-9 n-10 n-11 n-12"
	for about, tc := range map[string]struct {
		request Request
		want    string
	}{
		"selected":           {Request{Setting: arming.Arm}, "armed dead " + changing + " refuses"},
		"named":              {Request{Setting: arming.Arm, Named: true}, "armed dead " + changing + " none refuses"},
		"with a bound":       {Request{Setting: arming.Arm, Max: 3}, "n-1 n-2 n-3"},
		"with a large bound": {Request{Setting: arming.Arm, Named: true, Max: 100}, changing},
		"all with a bound":   {Request{Setting: arming.Arm, All: true, Max: 2}, "n-1 n-2"},
		"disarm with one":    {Request{Setting: arming.Disarm, Max: 9}, "armed"},
		"all":                {Request{Setting: arming.Arm, All: true}, ""},
	} {
		if got := New(tc.request, fleet(), noon).Write(); !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("%s: %q, want %q", about, got, tc.want)
		}
	}
}

func TestIdle_OnlyIfNothingIsWritten(t *testing.T) {
	there := func(n clusterstatus.Node) clusterstatus.Node { return with(n, "armed", "") }
	none := clusterstatus.Node{Name: "none", Created: noon}
	other := "a"
	armed := arming.Source{Setting: " armed "}
	for about, tc := range map[string]struct {
		request Request
		nodes   []clusterstatus.Node
		want    bool
	}{
		"armed by it":                      {Request{Setting: arming.Arm}, []clusterstatus.Node{there(node("a", true, "x")), none}, true},
		"armed by something else":          {Request{Setting: arming.Arm}, []clusterstatus.Node{node("a", true, "flag")}, false},
		"the other setting":                {Request{Setting: arming.Disarm}, []clusterstatus.Node{there(node("a", false, "x"))}, false},
		"other findings accepted":          {Request{Setting: arming.Arm, Accepted: &other}, []clusterstatus.Node{there(node("a", true, "x"))}, false},
		"one refuses":                      {Request{Setting: arming.Arm}, []clusterstatus.Node{there(node("a", true, "x")), there(node("b", false, "x", "f"))}, false},
		"named, without an agent":          {Request{Setting: arming.Arm, Named: true}, []clusterstatus.Node{none}, false},
		"a bound, all that can are armed":  {Request{Setting: arming.Arm, Max: 1}, []clusterstatus.Node{node("a", true, "flag"), node("b", false, "x", "f"), none}, true},
		"a bound, one can":                 {Request{Setting: arming.Arm, Max: 1}, []clusterstatus.Node{node("a", false, unset)}, false},
		"all, by the ConfigMap":            {Request{Setting: arming.Arm, All: true, ConfigMap: armed}, []clusterstatus.Node{node("a", true, "x"), none}, true},
		"all, and one refuses":             {Request{Setting: arming.Arm, All: true, ConfigMap: armed}, []clusterstatus.Node{node("a", false, "x", "f")}, false},
		"all are armed, the ConfigMap not": {Request{Setting: arming.Arm, All: true}, []clusterstatus.Node{node("a", true, "flag")}, false},
	} {
		if got := New(tc.request, tc.nodes, noon).Idle(); got != tc.want {
			t.Errorf("%s: %t", about, got)
		}
	}
}

func TestText_CountsAndNames(t *testing.T) {
	p := New(Request{Setting: arming.Arm}, fleet(), noon)
	want := `Arm 15 nodes of the context c (https://s), by the annotation plimsoll.dev/arming:
  to be armed           12  n-1, n-2, n-3, n-4, n-5, n-6, n-7, n-8, n-9, n-10 and 2 more
  staying disarmed       1
    refuses: refused: right-missing
  silent agent           1  dead
  no agent               1  none
  armed already          1
`
	if got := p.Text("the context c (https://s)", "ns"); got != want || p.Question() != "Arm 15 nodes?" {
		t.Errorf("got\n%s%s\nwant\n%s", got, p.Question(), want)
	}
	p = New(Request{Setting: arming.Arm, All: true, Max: 2}, fleet()[:12], noon)
	want = `Arm 2 nodes of c, by the annotation plimsoll.dev/arming:
  to be armed            2  n-1, n-2
  left for later        10  --max is 2
`
	if got := p.Text("c", "ns"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p = New(Request{Setting: arming.Disarm, All: true}, []clusterstatus.Node{node("a", true, "flag")}, noon)
	want = `Disarm all nodes of c, later ones too, by the ConfigMap ns/plimsoll-arming:
  to be disarmed         1  a
`
	if got := p.Text("c", "ns"); got != want || p.Question() != "Disarm all nodes?" {
		t.Errorf("got\n%s%s\nwant\n%s", got, p.Question(), want)
	}
	p = New(Request{Setting: arming.Cleanup}, []clusterstatus.Node{node("a", true, "flag"), node("b", false, arming.CleanedUp)}, noon)
	want = `Clean up 2 nodes of c, by the annotation plimsoll.dev/arming:
  to be cleaned up       1  a
  cleaned up already     1
`
	if got := p.Text("c", "ns"); got != want || p.Question() != "Clean up 2 nodes?" {
		t.Errorf("got\n%s%s\nwant\n%s", got, p.Question(), want)
	}
	var refusing []clusterstatus.Node
	for i := range 12 {
		refusing = append(refusing, node(fmt.Sprintf("n-%d", i), false, unset, "f"))
	}
	if got := New(Request{Setting: arming.Arm}, refusing, noon).Text("c", "ns"); strings.Count(got, "refused") != maxNames || !strings.HasSuffix(got, "    and 2 more\n") {
		t.Error(got)
	}
	if p = New(Request{Setting: arming.Arm}, refusing[:1], noon); p.Question() != "Arm 1 node?" || p.Count(Blocked) != 1 {
		t.Errorf("%+v", p)
	}
}
