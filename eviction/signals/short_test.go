package signals

import "testing"

func TestShort_RoundsDown(t *testing.T) {
	for n, want := range map[Amount]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 100<<20 - 1: "99Mi", 100 << 20: "100Mi", 9<<30 + 999<<20: "9.9Gi", -5 << 20: "-5Mi", -1 << 63: "-8Ei"} {
		if got := UnitBytes.Short(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	if got := UnitPIDs.Short(1999); got != "1.9k" {
		t.Errorf("1999 PIDs: %s, want 1.9k", got)
	}
}
