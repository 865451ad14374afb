package nodestatus

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"plimsoll.dev/plimsoll/eviction/signals"
)

const period = 5 * time.Minute

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// memoryOnly returns one owner for memory and the kubelet for all others.
func memoryOnly(o Owner) Owners { return Owners{signals.MemoryPressure: o} }

func pressed(c ...signals.Condition) *wanted {
	w := &wanted{}
	for _, c := range c {
		w.set.Add(c)
	}
	return w
}

// standing returns a condition with the times of its transition and its last write, both before
// noon.
func standing(kind string, status corev1.ConditionStatus, since, heartbeat time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(kind), Status: status, Reason: "R", Message: "m",
		LastTransitionTime: metav1.NewTime(noon.Add(-since)), LastHeartbeatTime: metav1.NewTime(noon.Add(-heartbeat)),
	}
}

func nodeOf(conditions ...corev1.NodeCondition) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.UID = "n", "u"
	n.Status.Conditions = conditions
	return n
}

// applied returns the node after the draft, as the API server would store it.
func applied(t testing.TB, n *corev1.Node, d *draft) *corev1.Node {
	t.Helper()
	patch, err := d.statusPatch()
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	var result corev1.Node
	if err := json.Unmarshal(after, &result); err != nil {
		t.Fatal(err)
	}
	return &result
}

// summary returns a short form of a draft.
func summary(d *draft) (lines []string) {
	for _, c := range d.set {
		lines = append(lines, string(c.Type)+"="+string(c.Status))
	}
	for _, kind := range d.remove {
		lines = append(lines, "-"+string(kind))
	}
	for _, c := range d.changes {
		lines = append(lines, map[bool]string{true: "pressed", false: "eased"}[c.pressed])
	}
	return lines
}

func TestLedger_DecidesNextWrite(t *testing.T) {
	const own, standard = "plimsoll.dev/MemoryPressure", "MemoryPressure"
	none, memory := pressed(), pressed(signals.MemoryPressure)
	hung := &wanted{set: memory.set, hung: true}
	yes, no, unknown := corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	tests := []struct {
		name    string
		owner   Owner
		present []corev1.NodeCondition
		want    *wanted
		summary []string
		next    time.Duration // after noon
	}{
		{"kubelet reports, no condition yet", KubeletReports, nil, memory, nil, refreshPeriod},
		{"kubelet reports False", KubeletReports, []corev1.NodeCondition{standing(standard, no, 0, 0)}, memory, nil, refreshPeriod},
		{"kubelet reports, own type exists", KubeletReports, []corev1.NodeCondition{standing(own, yes, 0, 0)}, memory, []string{"-" + own}, refreshPeriod},
		{"first False", OwnTypes, nil, none, []string{own + "=False"}, refreshPeriod},
		{"True without a condition", OwnTypes, nil, memory, []string{own + "=True", "pressed"}, refreshPeriod},
		{"True due for renewal", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, renewalPeriod)}, memory, []string{own + "=True"}, refreshPeriod},
		{"True not due for renewal", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, renewalPeriod-time.Second)}, memory, nil, time.Second},
		{"standard True not due for refresh", StandardTypes, []corev1.NodeCondition{standing(standard, yes, time.Minute, time.Minute)}, memory, nil, refreshPeriod - time.Minute},
		{"True while the agent hangs", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, time.Minute)}, hung, nil, refreshPeriod - time.Minute},
		{"True after False", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Second, time.Second)}, memory, []string{own + "=True", "pressed"}, refreshPeriod},
		{"standard type beside own type", OwnTypes, []corev1.NodeCondition{standing(standard, no, 0, 0), standing(own, yes, 0, 0)}, memory, nil, renewalPeriod},
		{"standard types without a kubelet", StandardTypes, nil, memory, []string{standard + "=True", "pressed"}, refreshPeriod},
		{"own type after the kubelet was removed", StandardTypes, []corev1.NodeCondition{standing(own, yes, 0, 0)}, memory, []string{standard + "=True", "-" + own, "pressed"}, refreshPeriod},
		{"False after Unknown", StandardTypes, []corev1.NodeCondition{standing(standard, unknown, 0, 0)}, none, []string{standard + "=False"}, refreshPeriod},
		{"True within the transition period", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, 0)}, none, nil, renewalPeriod},
		{"True within the truncated second", OwnTypes, []corev1.NodeCondition{standing(own, yes, period, 0)}, none, nil, time.Second},
		{"False after the transition period", OwnTypes, []corev1.NodeCondition{standing(own, yes, period+time.Second, 0)}, none, []string{own + "=False", "eased"}, refreshPeriod},
		{"unchanged False due for refresh", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Hour, refreshPeriod)}, none, []string{own + "=False"}, refreshPeriod},
		{"unchanged False not due for refresh", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Hour, time.Minute)}, none, nil, refreshPeriod - time.Minute},
		{"True within the transition period, due for refresh", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, refreshPeriod)}, none, []string{own + "=True"}, 4*time.Minute + time.Second},
		{"times in the future", OwnTypes, []corev1.NodeCondition{standing(own, yes, -time.Hour, -time.Hour)}, none, []string{own + "=True"}, refreshPeriod},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newLedger(period).decide(noon, nodeOf(test.present...), memoryOnly(test.owner), test.want)
			if diff := cmp.Diff(test.summary, summary(d)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := d.next.Sub(noon); got != test.next {
				t.Errorf("next decision after %s, want %s", got, test.next)
			}
		})
	}
}

func TestLedger_CorrectsFutureTransitionTime(t *testing.T) {
	n := nodeOf(standing("plimsoll.dev/MemoryPressure", corev1.ConditionTrue, -time.Hour, -time.Hour))
	l, own := newLedger(period), memoryOnly(OwnTypes)
	d := l.decide(noon, n, own, pressed())
	l.sent(d, n, noon)
	l.accepted(d)
	n = applied(t, n, d)
	d = l.decide(noon.Add(period+time.Second), n, own, pressed())
	if got := summary(d); len(got) != 2 || got[1] != "eased" {
		t.Errorf("not cleared: %v", got)
	}
}

func TestLedger_StandardTypesUseKubeletTexts(t *testing.T) {
	all := pressed(signals.DiskPressure, signals.MemoryPressure, signals.PIDPressure)
	want := map[*wanted][][3]string{
		all: {{"DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure"},
			{"MemoryPressure", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
			{"PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"}},
		pressed(): {{"DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
			{"MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
			{"PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"}},
	}
	for w, want := range want {
		var got [][3]string
		for _, c := range newLedger(period).decide(noon, nodeOf(), StandardTypes.All(), w).set {
			got = append(got, [3]string{string(c.Type), c.Reason, c.Message})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestLedger_OwnTypesNameSignal(t *testing.T) {
	w := pressed(signals.MemoryPressure, signals.PIDPressure)
	w.crossings[signals.MemoryPressure] = Crossing{true, signals.AllocatableMemoryAvailable, "1Gi", 900 << 20}
	d := newLedger(period).decide(noon, nodeOf(), OwnTypes.All(), w)
	want := []string{
		"DiskAboveThresholds: every signal is above its thresholds",
		"MemoryBelowThreshold: allocatableMemory.available is below its threshold: threshold 1Gi, available 900Mi",
		"PIDsBelowThreshold: every signal is above its thresholds; the condition stays for the transition period of 5m0s",
	}
	var got []string
	for _, c := range d.set {
		got = append(got, c.Reason+": "+c.Message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLedger_YieldsStandardTypeToOtherWriter(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(StandardTypes)
	d := l.decide(noon, nodeOf(), owners, pressed())
	l.sent(d, nodeOf(), noon)
	l.accepted(d)
	n := applied(t, nodeOf(), d)

	now := noon.Add(time.Minute)
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now) // same content, but another writer
	d = l.decide(now, n, owners, pressed(signals.MemoryPressure))
	if diff := cmp.Diff([]string{"plimsoll.dev/MemoryPressure=True", "pressed"}, summary(d)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(d.notices) != 1 || !strings.Contains(d.notices[0], "another program writes the condition MemoryPressure") {
		t.Errorf("got notices %q, want one about MemoryPressure", d.notices)
	}
	l.sent(d, n, now)
	l.accepted(d)
	n = applied(t, n, d)
	if d = l.decide(now, n, owners, pressed(signals.MemoryPressure)); !d.empty() || len(d.notices) > 0 {
		t.Errorf("another write or notice: %v, %q", summary(d), d.notices)
	}
	n.UID = "another"
	n.Status.Conditions = nil
	if got := summary(l.decide(now, n, owners, pressed())); len(got) != 1 || got[0] != "MemoryPressure=False" {
		t.Errorf("a new Node: got %v, want MemoryPressure=False", got)
	}
}

func TestLedger_RewritesUnknownOncePerTransition(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(StandardTypes)
	n, writes := nodeOf(), 0
	const watched = time.Hour
	for now := noon; now.Before(noon.Add(watched)); now = now.Add(5 * time.Second) {
		d := l.decide(now, n, owners, pressed())
		if !d.empty() {
			l.sent(d, n, now)
			l.accepted(d)
			writes++
		}
		n = applied(t, n, d)
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	if maxWrites := int(watched / period); writes != maxWrites {
		t.Errorf("%d writes in %s, want one per transition period, %d", writes, watched, maxWrites)
	}
}

func TestLedger_RestoresRemovedTypeAfterTransition(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(OwnTypes)
	d := l.decide(noon, nodeOf(), owners, pressed())
	l.sent(d, nodeOf(), noon)
	if again := l.decide(noon.Add(time.Second), nodeOf(), owners, pressed()); again.empty() {
		t.Error("a lost write is not repeated")
	}
	l.accepted(d)
	if again := l.decide(noon.Add(period-time.Second), nodeOf(), owners, pressed()); !again.empty() {
		t.Errorf("written again within the period: %v", summary(again))
	}
	if again := l.decide(noon.Add(period), nodeOf(), owners, pressed()); again.empty() {
		t.Error("not written again after the period")
	}
}
