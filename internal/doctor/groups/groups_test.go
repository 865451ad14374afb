package groups_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/groups"
)

// cluster returns a cluster of n nodes without findings.
func cluster(n int) doctor.ClusterFacts {
	f := doctor.ClusterFacts{
		Policies:             doctor.Known([]string{doctor.OwnNodePolicy}),
		LifecycleControllers: doctor.Known([]doctor.LifecycleController{{Name: "kube-controller-manager", Acts: doctor.Known(true)}}),
		Repairs:              doctor.Known([]doctor.Repair{}),
		Ahead:                doctor.Known(time.Duration(0)),
	}
	f.Nodes.Known = true
	for i := range n {
		f.Nodes.Value = append(f.Nodes.Value, doctor.Node{Name: fmt.Sprintf("n-%d", n-i), Agent: &doctor.Agent{Version: "v1", Armed: true, Lasts: 40 * time.Second}})
	}
	return f
}

// findings returns the codes with their nodes.
func findings(l *groups.List) string {
	var texts []string
	for _, g := range l.Items {
		text := string(g.Severity) + " " + g.Code
		for _, n := range g.Nodes {
			text += " " + n.Name
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func TestNew_GroupsByCode(t *testing.T) {
	for about, tc := range map[string]struct {
		change  func(*doctor.ClusterFacts)
		want    string
		verdict error
	}{
		"healthy": {func(*doctor.ClusterFacts) {}, "", nil},
		"reports of agents": {func(f *doctor.ClusterFacts) {
			for i := range f.Nodes.Value {
				f.Nodes.Value[i].Agent.Findings = []string{"right-missing", "right-missing"}
			}
			f.Nodes.Value[3].Agent.Findings = append(f.Nodes.Value[3].Agent.Findings, "clock-skew-large", "of-a-later-version", "no-agents")
		}, "error right-missing n-1 n-2 n-3 n-4 n-5 n-6 n-7 n-8 n-9 n-10 n-11 n-12; error agent-findings n-9; error clock-skew-large n-9", doctor.ErrFindings},
		"silent agents": {func(f *doctor.ClusterFacts) {
			f.Nodes.Value[0].Agent.Silent, f.Nodes.Value[10].Agent.Silent = time.Minute, time.Hour
		}, "error agent-silent n-2 n-12", doctor.ErrFindings},
		"of the cluster first": {func(f *doctor.ClusterFacts) {
			f.Policies.Value = nil
			f.Nodes.Value[0].KubeletVersion = "v1.20.0"
			f.Nodes.Value[1].Agent.Armed = false
		}, "warning policy-missing; warning kubelet-version n-12; info agents-not-armed", nil},
		"unknown facts": {func(f *doctor.ClusterFacts) { f.Policies = doctor.Unknown[[]string]("EIO") }, "warning unknown-policies", doctor.ErrIncomplete},
	} {
		f := cluster(12)
		tc.change(&f)
		l := groups.New(f)
		if got := findings(l); got != tc.want || !errors.Is(l.Err(), tc.verdict) || l.Nodes != 12 {
			t.Errorf("%s: %v, got  %s\nwant %s", about, l.Err(), got, tc.want)
		}
		for _, g := range l.Items {
			if g.Means == "" || g.Remedy == "" {
				t.Errorf("%s: %+v", about, g)
			}
		}
	}
}

// The facts that were passed are not changed.
func TestNew_ChangesNoFact(t *testing.T) {
	f := cluster(1)
	f.Nodes.Value[0].Agent.Findings = []string{"right-missing"}
	groups.New(f)
	if len(f.Nodes.Value[0].Agent.Findings) != 1 {
		t.Error("the findings of the agent are gone")
	}
}

func TestText_NodesAndRemedies(t *testing.T) {
	f := cluster(12)
	for i := range f.Nodes.Value {
		f.Nodes.Value[i].Agent.Findings = []string{"right-missing"}
		f.Nodes.Value[i].Agent.Silent = time.Duration(12-i) * time.Minute
	}
	f.Nodes.Value[0].KubeletVersion = "v1.20.0"
	f.Policies.Value = nil
	text := groups.New(f).Text()
	rest := text
	for _, want := range []string{
		"error agent-silent, 12 nodes: n-1, n-2, n-3, n-4, n-5, n-6, n-7, n-8, n-9, n-10 and 2 more\n  An agent does not renew its lease: ",
		"\n    n-1: the agent has not renewed its lease for 1m0s; it lasts 40s\n", "    n-5: ", "    and 7 more: -o json has all\n  Remedy: check why its pod does not run",
		"error right-missing, 12 nodes: n-1, ", "\n  Remedy: ",
		"warning policy-missing\n  no ValidatingAdmissionPolicy is bound", "\n  Remedy: ",
		"warning kubelet-version, node n-12\n  ", "v1.20.0", "\n  Remedy: ",
		"2 errors, 2 warnings, 0 infos; nodes: 12\nOf what agents find on their nodes, errors alone are listed. For figures and warnings of a node, run in its agent's pod:\n  /plimsoll doctor --config=/etc/plimsoll/agent.yaml\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q in its place in\n%s", want, text)
		}
		rest = after
	}
	if text := groups.New(cluster(0)).Text(); text != "0 errors, 0 warnings, 0 infos; nodes: 0\n" {
		t.Error(text)
	}
}

func TestNew_TextsArePrintable(t *testing.T) {
	f := cluster(1)
	f.Nodes.Value[0].KubeletVersion = "v1\x1b[2J" + strings.Repeat("x", 100_000)
	f.Policies = doctor.Unknown[[]string]("no\x1b]0;title\x07")
	if text := groups.New(f).Text(); strings.ContainsAny(text, "\x1b\x07") || len(text) > 8<<10 || !strings.Contains(text, "unknown-policies") {
		t.Errorf("%d bytes: %.200q", len(text), text)
	}
}

func TestJSON_HasAllNodes(t *testing.T) {
	f := cluster(30)
	for i := range f.Nodes.Value {
		f.Nodes.Value[i].Agent.Silent = time.Hour
	}
	text, err := json.Marshal(groups.New(f))
	if err != nil || strings.Count(string(text), `"what":"the agent has not renewed`) != 30 || !strings.HasPrefix(string(text), `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"FindingList","nodes":30,"errors":1,`) {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := json.Marshal(groups.New(cluster(1))); err != nil || !strings.Contains(string(text), `"items":[]`) {
		t.Errorf("%v: %s", err, text)
	}
}
