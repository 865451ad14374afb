package model

import (
	"testing"
	"time"
)

func TestTolerates_ComparesKeyValueAndEffect(t *testing.T) {
	taint := Taint{Key: "k", Value: "v", Effect: NoExecute}
	for _, c := range []struct {
		name string
		by   Toleration
		want bool
	}{
		{"equal key and value", Toleration{Key: "k", Value: "v"}, true},
		{"another value", Toleration{Key: "k", Value: "w"}, false},
		{"another key", Toleration{Key: "l", Value: "v"}, false},
		{"exists, any value", Toleration{Key: "k", Operator: Exists}, true},
		{"exists without a key", Toleration{Operator: Exists}, true},
		{"equal without a key", Toleration{Value: "v"}, false},
		{"same effect", Toleration{Key: "k", Operator: Exists, Effect: NoExecute}, true},
		{"another effect", Toleration{Key: "k", Operator: Exists, Effect: NoSchedule}, false},
		{"invalid effect", Toleration{Key: "k", Value: "v", Operator: InvalidOperator}, false},
		{"operator of a later API", Toleration{Key: "k", Value: "w", Operator: UnknownOperator}, true},
		{"operator of a later API, another key", Toleration{Key: "l", Operator: UnknownOperator}, false},
	} {
		if got := c.by.Tolerates(&taint); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTolerates_ComparesIntegers(t *testing.T) {
	for _, c := range []struct {
		taint    string
		operator Operator
		value    string
		want     bool
	}{
		{"950", Greater, "900", true},
		{"900", Greater, "900", false},
		{"899", Greater, "900", false},
		{"899", Less, "900", true},
		{"900", Less, "900", false},
		{"901", Less, "900", false},
		{"10", Greater, "9", true},
		{"-3", Less, "0", true},
		{"-3", Greater, "-4", true},
		{"9223372036854775807", Greater, "-9223372036854775808", true},
		{"9223372036854775808", Greater, "0", false},
		{"0", Greater, "-9223372036854775809", false},
		{"high", Greater, "0", false},
		{"5", Greater, "low", false},
		{"", Less, "1", false},
		{"0", Less, "", false},
		{"007", Greater, "1", false},
		{"+7", Greater, "1", false},
		{"-0", Less, "1", false},
		{"7.5", Greater, "1", false},
	} {
		by := Toleration{Key: "k", Operator: c.operator, Value: c.value, Effect: NoExecute}
		if got := by.Tolerates(&Taint{Key: "k", Value: c.taint, Effect: NoExecute}); got != c.want {
			t.Errorf("taint %q, toleration %+v: got %v, want %v", c.taint, by, got, c.want)
		}
		by.Key = ""
		if by.Tolerates(&Taint{Key: "k", Value: c.taint, Effect: NoExecute}) {
			t.Errorf("%+v tolerates a taint without a key", by)
		}
	}
}

func TestSwapped_ReturnsTransitionAfterTaint(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name   string
		ready  Status
		taint  Taint
		offset time.Duration // transition of Ready, after the taint was added
		want   bool
	}{
		{"not ready, then unreachable", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, time.Minute, true},
		{"unreachable, then not ready", False, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, true},
		{"tainted at the transition", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, 0, false},
		{"tainted after the transition", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, -time.Minute, false},
		{"not swapped yet", Unknown, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, false},
		{"ready again", True, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, false},
		{"another effect", Unknown, Taint{Key: KeyUnreachable, Effect: NoSchedule}, time.Minute, false},
		{"a user's taint", Unknown, Taint{Key: "k", Effect: NoExecute}, time.Minute, false},
	} {
		n, want := Node{}, time.Time{}
		c.taint.Added = start
		n.Conditions[Ready] = Condition{Status: c.ready, Transition: start.Add(c.offset)}
		if c.want {
			want = start.Add(c.offset)
		}
		if got := n.Swapped(&c.taint); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
	}
}

func TestParse_InvertsString(t *testing.T) {
	for s := Absent; s <= Unknown; s++ {
		if got := ParseStatus(s.String()); got != s {
			t.Errorf("status %q is parsed as %q", s, got)
		}
	}
	if got := ParseStatus("Perhaps"); got != Unknown {
		t.Errorf("an unknown status is parsed as %q", got)
	}
	for c := range ConditionTypes {
		if got, ok := ParseConditionType(c.String()); !ok || got != c {
			t.Errorf("condition %s is parsed as %s", c, got)
		}
	}
	for e := AnyEffect; e <= NoExecute; e++ {
		if got, ok := ParseEffect(e.String()); !ok || got != e {
			t.Errorf("effect %s is parsed as %s", e, got)
		}
	}
	for place, want := range map[Place]string{{}: "", {"r", "z"}: "r/z", {Region: "r"}: "r/", {Zone: "z"}: "/z"} {
		if place.String() != want {
			t.Errorf("place %#v: got %q, want %q", place, place, want)
		}
	}
}
