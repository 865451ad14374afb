package facts

import "testing"

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
		{"an operator that there is not", Toleration{Key: "k", Value: "v", Operator: InvalidOperator}, false},
	} {
		if got := c.by.Tolerates(&taint); got != c.want {
			t.Errorf("%s: %v", c.name, got)
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
