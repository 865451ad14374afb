package model

import (
	"testing"
	"time"
)

func TestTolerates(t *testing.T) {
	taint := Taint{Key: "k", Value: "v", Effect: NoExecute}
	for _, c := range []struct {
		name string
		by   Toleration
		want bool
	}{
		{"equal key and value", Toleration{Key: "k", Value: "v"}, true},
		{"another value", Toleration{Key: "k", Value: "w"}, false},
		{"another key", Toleration{Key: "l", Value: "v"}, false},
		{"exists, whatever the value", Toleration{Key: "k", Operator: Exists}, true},
		{"exists without a key is for everything", Toleration{Operator: Exists}, true},
		{"equal without a key is for nothing", Toleration{Value: "v"}, false},
		{"the same effect", Toleration{Key: "k", Operator: Exists, Effect: NoExecute}, true},
		{"another effect", Toleration{Key: "k", Operator: Exists, Effect: NoSchedule}, false},
		{"an effect that there is not", Toleration{Key: "k", Value: "v", Operator: InvalidOperator}, false},
		{"an operator of a later API", Toleration{Key: "k", Value: "w", Operator: UnknownOperator}, true},
		{"an operator of a later API, another key", Toleration{Key: "l", Operator: UnknownOperator}, false},
	} {
		if got := c.by.Tolerates(&taint); got != c.want {
			t.Errorf("%s: %v", c.name, got)
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
			t.Errorf("a taint of %q by %+v: %v", c.taint, by, got)
		}
		by.Key = ""
		if by.Tolerates(&Taint{Key: "k", Value: c.taint, Effect: NoExecute}) {
			t.Errorf("%+v has no key and tolerates a taint", by)
		}
	}
}

func TestSwapped_IsTheTransitionAfterTheTaint(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name  string
		ready Status
		taint Taint
		turns time.Duration // transition of Ready, after the taint was added
		want  bool
	}{
		{"not ready, then unreachable", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, time.Minute, true},
		{"unreachable, then not ready", False, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, true},
		{"tainted when it became unreachable", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, 0, false},
		{"tainted when its turn came", Unknown, Taint{Key: KeyUnreachable, Effect: NoExecute}, -time.Minute, false},
		{"not swapped yet", Unknown, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, false},
		{"ready again", True, Taint{Key: KeyNotReady, Effect: NoExecute}, time.Minute, false},
		{"another effect", Unknown, Taint{Key: KeyUnreachable, Effect: NoSchedule}, time.Minute, false},
		{"a user's taint", Unknown, Taint{Key: "k", Effect: NoExecute}, time.Minute, false},
	} {
		n, want := Node{}, time.Time{}
		c.taint.Added = start
		n.Conditions[Ready] = Condition{Status: c.ready, Transition: start.Add(c.turns)}
		if c.want {
			want = start.Add(c.turns)
		}
		if got := n.Swapped(&c.taint); !got.Equal(want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestNamesAreThoseOfTheAPI(t *testing.T) {
	for s := Absent; s <= Unknown; s++ {
		if got := ParseStatus(s.String()); got != s {
			t.Errorf("status %q is read as %q", s, got)
		}
	}
	if got := ParseStatus("Perhaps"); got != Unknown {
		t.Errorf("a status that there is not is read as %q", got)
	}
	for c := range ConditionTypes {
		if got, ok := ParseConditionType(c.String()); !ok || got != c {
			t.Errorf("condition %s is read as %s", c, got)
		}
	}
	for e := AnyEffect; e <= NoExecute; e++ {
		if got, ok := ParseEffect(e.String()); !ok || got != e {
			t.Errorf("effect %s is read as %s", e, got)
		}
	}
	for place, want := range map[Place]string{{}: "", {"r", "z"}: "r/z", {Region: "r"}: "r/", {Zone: "z"}: "/z"} {
		if place.String() != want {
			t.Errorf("the place %#v is called %q, not %q", place, place, want)
		}
	}
}
