package agentpods_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/runtimepods"
	"plimsoll.dev/plimsoll/ranking"
)

// summary returns the choices for a pod in a short form.
func summary(p *signals.Pod) string {
	return fmt.Sprintf("%s last=%v %d", p.Protection, p.Last, p.EvictionPriority)
}

func TestChoices_ApplyAnnotations(t *testing.T) {
	const policy, priority = agentpods.PolicyAnnotation, agentpods.PriorityAnnotation
	for _, tc := range []struct {
		name, namespace string
		annotations     map[string]string
		want            string
		problems        int
	}{
		{"no annotations", "trusted", nil, " last=false 0", 0},
		{"never", "trusted", map[string]string{policy: "never"}, "opted out by its annotation last=false 0", 0},
		{"last", "trusted", map[string]string{policy: "last"}, " last=true 0", 0},
		{"default", "trusted", map[string]string{policy: "default", priority: "-1000"}, " last=false -1000", 0},
		{"policy and priority", "trusted", map[string]string{policy: "last", priority: "1000"}, " last=true 1000", 0},
		{"untrusted namespace", "untrusted", map[string]string{policy: "never", priority: "7"}, " last=false 0", 0},
		{"untrusted namespace, invalid values", "untrusted", map[string]string{policy: "NEVER", priority: "x"}, " last=false 0", 0},
		{"protected namespace", "safe", nil, "in a protected namespace last=false 0", 0},
		{"unknown policy", "trusted", map[string]string{policy: "Never"}, " last=false 0", 1},
		{"empty policy", "trusted", map[string]string{policy: ""}, " last=false 0", 1},
		{"priority too high", "trusted", map[string]string{priority: "1001"}, " last=false 0", 1},
		{"priority too low", "trusted", map[string]string{priority: "-1001"}, " last=false 0", 1},
		{"priority out of range", "trusted", map[string]string{priority: "99999999999999999999"}, " last=false 0", 1},
		{"priority not a number", "trusted", map[string]string{policy: "last", priority: "1e2"}, " last=true 0", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var problems []string
			c := agentpods.NewChoices([]string{"safe"}, []string{"trusted"}, func(err error) { problems = append(problems, err.Error()) })
			for range 3 { // reported once
				pod := signals.Pod{UID: "u", Namespace: tc.namespace, Name: "p"}
				c.Apply(&pod, tc.annotations)
				if got := summary(&pod); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			}
			if len(problems) != tc.problems || len(problems) == 1 && !strings.Contains(problems[0], tc.namespace+"/p") {
				t.Errorf("problems %q", problems)
			}
		})
	}
}

// A pod's annotation can be changed often, to texts of up to 256 KiB. What was reported is kept with a part of the text.
func TestChoices_BoundWhatTheyKeep(t *testing.T) {
	var problems []string
	c := agentpods.NewChoices(nil, []string{"trusted"}, func(err error) { problems = append(problems, err.Error()) })
	for i := range 3 {
		pod := signals.Pod{UID: "u", Namespace: "trusted", Name: "p"}
		c.Apply(&pod, map[string]string{agentpods.PolicyAnnotation: strings.Repeat("x", 250<<10) + strconv.Itoa(i)})
	}
	if len(problems) != 1 || len(problems[0]) > 1000 {
		t.Errorf("%d problems, the first with %d bytes", len(problems), len(problems[0]))
	}
}

func TestChoices_PreserveProtection(t *testing.T) {
	c := agentpods.NewChoices([]string{"safe"}, []string{"*"}, nil)
	for _, ns := range []string{"safe", "anywhere"} {
		pod := signals.Pod{Namespace: ns, Protection: signals.Critical}
		c.Apply(&pod, map[string]string{agentpods.PolicyAnnotation: "default"})
		if pod.Protection != signals.Critical {
			t.Errorf("in %s: %v", ns, pod.Protection)
		}
	}
	pod := signals.Pod{Namespace: "anywhere"}
	if c.Apply(&pod, map[string]string{agentpods.PolicyAnnotation: "never"}); pod.Protection != signals.OptedOut {
		t.Error("* does not include every namespace")
	}
	(*agentpods.Choices)(nil).Apply(&pod, nil) // nil choices have no effect
}

// Pods in a state file may have been stored under other choices.
func TestChoices_RenewKnownPods(t *testing.T) {
	known := []signals.Pod{
		{Namespace: "was", Protection: signals.Namespaced}, {Namespace: "safe"}, {Namespace: "trusted", Protection: signals.OptedOut},
		{Namespace: "was", Protection: signals.OptedOut}, {Namespace: "trusted", Last: true, EvictionPriority: 3}, {Namespace: "was", Last: true, EvictionPriority: 3},
		{Namespace: "safe", Protection: signals.OptedOut}, {Namespace: "was", Protection: signals.Static},
	}
	c := agentpods.NewChoices([]string{"safe"}, []string{"trusted"}, nil)
	want := []string{" last=false 0", "in a protected namespace last=false 0", "opted out by its annotation last=false 0",
		" last=false 0", " last=true 3", " last=false 0", "in a protected namespace last=false 0", "static pod last=false 0"}
	for i, pod := range c.Renew(known) {
		if got := summary(&pod); got != want[i] {
			t.Errorf("%d: %s, want %s", i, got, want[i])
		}
	}
	if known[0].Protection != signals.Namespaced {
		t.Error("the known pods were modified")
	}
}

func TestChoices_ApplyToManifestsAndRuntime(t *testing.T) {
	dir := t.TempDir()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: trusted, uid: u1, annotations: {plimsoll.dev/eviction-policy: never}}\n"
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := agentpods.NewChoices(nil, []string{"trusted"}, nil)
	d := agentpods.NewDirectory(dir, c)
	if _, err := d.Refresh(); err != nil || len(d.Pods()) != 1 || d.Pods()[0].Protection != signals.OptedOut {
		t.Errorf("%+v, %v", d.Pods(), err)
	}
	found := runtimepods.Convert([]cri.Sandbox{{UID: "u2", Namespace: "trusted", Name: "p", Ready: true,
		Annotations: map[string]string{"kubernetes.io/config.source": "api", agentpods.PolicyAnnotation: "last"}}}, nil, c)
	if len(found) != 1 || !found[0].Last {
		t.Errorf("%+v", found)
	}
}

func TestParseManifest_OwnerIsController(t *testing.T) {
	for manifest, want := range map[string]string{
		"": "default/p",
		"  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: rs-1, controller: true}]\n":                                "rs-1",
		"  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: rs-1}]\n":                                                  "default/p",
		"  ownerReferences: [{apiVersion: v1, kind: Node, name: node, uid: n-1, controller: true}]\n":                                         "default/p",
		"  ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: a-1}, {apiVersion: v1, kind: B, name: b, uid: b-1, controller: true}]\n": "b-1",
	} {
		pod, faults := agentpods.ParseManifest([]byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  uid: u1\n" + manifest))
		if len(faults) > 0 || pod.Owner != want {
			t.Errorf("%s%q, want %q, %v", manifest, pod.Owner, want, faults)
		}
	}
}

// The own pod is protected though its priority class and namespace are ordinary: in pods from the
// API server, from the runtime and from the state file.
func TestChoices_ExcludeTheOwnPod(t *testing.T) {
	c := agentpods.NewChoices(nil, nil, nil)
	c.Exclude("own")
	own, other := signals.Pod{UID: "own", Priority: -5}, signals.Pod{UID: "other"}
	c.Apply(&own, nil)
	c.Apply(&other, nil)
	if own.Protection != signals.Own || other.Protection != signals.Unprotected {
		t.Errorf("own: %v, other: %v", own.Protection, other.Protection)
	}
	key := ranking.Rank([]signals.Candidate{{Pod: &own}}, signals.MemoryAvailable, 0)[0].Key
	if reason := key.Reason(); !strings.Contains(reason, "passed over: the agent's own pod") {
		t.Errorf("the ranking explains: %s", reason)
	}
	successor := agentpods.NewChoices(nil, nil, nil)
	successor.Exclude("new")
	renewed := successor.Renew([]signals.Pod{own, {UID: "new"}})
	if renewed[0].Protection != signals.Unprotected || renewed[1].Protection != signals.Own {
		t.Errorf("the predecessor's pod: %v, the own: %v", renewed[0].Protection, renewed[1].Protection)
	}
	if text := signals.Protection(200).String(); text != "protected" {
		t.Errorf("a protection of a later version: %q", text)
	}
}
