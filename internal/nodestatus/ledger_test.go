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

// told returns a short form of a draft.
func told(d *draft) (said []string) {
	for _, c := range d.set {
		said = append(said, string(c.Type)+"="+string(c.Status))
	}
	for _, kind := range d.remove {
		said = append(said, "-"+string(kind))
	}
	for _, c := range d.changes {
		said = append(said, map[bool]string{true: "pressed", false: "eased"}[c.pressed])
	}
	return said
}

func TestWhatToWriteNext(t *testing.T) {
	const own, standard = "plimsoll.dev/MemoryPressure", "MemoryPressure"
	none, memory := pressed(), pressed(signals.MemoryPressure)
	hung := &wanted{set: memory.set, hung: true}
	yes, no, unknown := corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	tests := []struct {
		name    string
		owner   Owner
		present []corev1.NodeCondition
		want    *wanted
		told    []string
		next    time.Duration // after noon
	}{
		{"the kubelet's: nothing", KubeletReports, nil, memory, nil, refreshPeriod},
		{"the kubelet's: nothing, whatever it says", KubeletReports, []corev1.NodeCondition{standing(standard, no, 0, 0)}, memory, nil, refreshPeriod},
		{"a kubelet came: ours is withdrawn", KubeletReports, []corev1.NodeCondition{standing(own, yes, 0, 0)}, memory, []string{"-" + own}, refreshPeriod},
		{"False at the start, so that it is seen", OwnTypes, nil, none, []string{own + "=False"}, refreshPeriod},
		{"True at once, from nothing", OwnTypes, nil, memory, []string{own + "=True", "pressed"}, refreshPeriod},
		{"True is renewed", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, renewalPeriod)}, memory, []string{own + "=True"}, refreshPeriod},
		{"but not at every look", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, renewalPeriod-time.Second)}, memory, nil, time.Second},
		{"a standard True is refreshed as any", StandardTypes, []corev1.NodeCondition{standing(standard, yes, time.Minute, time.Minute)}, memory, nil, refreshPeriod - time.Minute},
		{"nor is one renewed by an agent that hangs", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, time.Minute)}, hung, nil, refreshPeriod - time.Minute},
		{"True at once, from False", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Second, time.Second)}, memory, []string{own + "=True", "pressed"}, refreshPeriod},
		{"standard types are left alone beside own ones", OwnTypes, []corev1.NodeCondition{standing(standard, no, 0, 0), standing(own, yes, 0, 0)}, memory, nil, renewalPeriod},
		{"standard types without a kubelet", StandardTypes, nil, memory, []string{standard + "=True", "pressed"}, refreshPeriod},
		{"the kubelet is gone: ours is withdrawn", StandardTypes, []corev1.NodeCondition{standing(own, yes, 0, 0)}, memory, []string{standard + "=True", "-" + own, "pressed"}, refreshPeriod},
		{"Unknown is no answer", StandardTypes, []corev1.NodeCondition{standing(standard, unknown, 0, 0)}, none, []string{standard + "=False"}, refreshPeriod},
		{"True stays for the period", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, 0)}, none, nil, renewalPeriod},
		{"a second longer, for times are cut down to seconds", OwnTypes, []corev1.NodeCondition{standing(own, yes, period, 0)}, none, nil, time.Second},
		{"then False", OwnTypes, []corev1.NodeCondition{standing(own, yes, period+time.Second, 0)}, none, []string{own + "=False", "eased"}, refreshPeriod},
		{"what stays is refreshed", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Hour, refreshPeriod)}, none, []string{own + "=False"}, refreshPeriod},
		{"but not sooner", OwnTypes, []corev1.NodeCondition{standing(own, no, time.Hour, time.Minute)}, none, nil, refreshPeriod - time.Minute},
		{"what is held is refreshed as it is", OwnTypes, []corev1.NodeCondition{standing(own, yes, time.Minute, refreshPeriod)}, none, []string{own + "=True"}, 4*time.Minute + time.Second},
		{"a time from the future is put right", OwnTypes, []corev1.NodeCondition{standing(own, yes, -time.Hour, -time.Hour)}, none, []string{own + "=True"}, refreshPeriod},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newLedger(period).decide(noon, nodeOf(test.present...), memoryOnly(test.owner), test.want)
			if diff := cmp.Diff(test.told, told(d)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := d.next.Sub(noon); got != test.next {
				t.Errorf("looks again after %s, want %s", got, test.next)
			}
		})
	}
}

func TestTimeFromTheFutureIsHeldNoLongerThanThePeriod(t *testing.T) {
	n := nodeOf(standing("plimsoll.dev/MemoryPressure", corev1.ConditionTrue, -time.Hour, -time.Hour))
	l, own := newLedger(period), memoryOnly(OwnTypes)
	d := l.decide(noon, n, own, pressed())
	l.sent(d, n, noon)
	l.taken(d)
	n = applied(t, n, d)
	d = l.decide(noon.Add(period+time.Second), n, own, pressed())
	if got := told(d); len(got) != 2 || got[1] != "eased" {
		t.Errorf("not cleared: %v", got)
	}
}

func TestStandardWords(t *testing.T) {
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

func TestOwnWordsNameTheSignal(t *testing.T) {
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

func TestAStrangersStandardConditionIsGivenUp(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(StandardTypes)
	d := l.decide(noon, nodeOf(), owners, pressed())
	l.sent(d, nodeOf(), noon)
	l.taken(d)
	n := applied(t, nodeOf(), d)

	now := noon.Add(time.Minute)
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now) // same content, but another writer
	d = l.decide(now, n, owners, pressed(signals.MemoryPressure))
	if diff := cmp.Diff([]string{"plimsoll.dev/MemoryPressure=True", "pressed"}, told(d)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(d.notices) != 1 || !strings.Contains(d.notices[0], "somebody else writes the condition MemoryPressure") {
		t.Errorf("nobody was told: %q", d.notices)
	}
	l.sent(d, n, now)
	l.taken(d)
	n = applied(t, n, d)
	if d = l.decide(now, n, owners, pressed(signals.MemoryPressure)); !d.empty() || len(d.notices) > 0 {
		t.Errorf("it goes on: %v, %q", told(d), d.notices)
	}
	n.UID = "another"
	n.Status.Conditions = nil
	if got := told(l.decide(now, n, owners, pressed())); len(got) != 1 || got[0] != "MemoryPressure=False" {
		t.Errorf("a Node made anew is nobody's yet: %v", got)
	}
}

func TestWhatAControllerSetToUnknownIsNotFoughtFor(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(StandardTypes)
	n, writes := nodeOf(), 0
	const watched = time.Hour
	for now := noon; now.Before(noon.Add(watched)); now = now.Add(5 * time.Second) {
		d := l.decide(now, n, owners, pressed())
		if !d.empty() {
			l.sent(d, n, now)
			l.taken(d)
			writes++
		}
		n = applied(t, n, d)
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	if most := int(watched / period); writes != most {
		t.Errorf("%d writes in %s, want one per transition period, %d", writes, watched, most)
	}
}

func TestWhatSomebodyTakesAwayIsNotFoughtFor(t *testing.T) {
	l, owners := newLedger(period), memoryOnly(OwnTypes)
	d := l.decide(noon, nodeOf(), owners, pressed())
	l.sent(d, nodeOf(), noon)
	if again := l.decide(noon.Add(time.Second), nodeOf(), owners, pressed()); again.empty() {
		t.Error("a write that was lost is not repeated")
	}
	l.taken(d)
	if again := l.decide(noon.Add(period-time.Second), nodeOf(), owners, pressed()); !again.empty() {
		t.Errorf("written again within the period: %v", told(again))
	}
	if again := l.decide(noon.Add(period), nodeOf(), owners, pressed()); again.empty() {
		t.Error("not written again after the period")
	}
}
