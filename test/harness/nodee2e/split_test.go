package main

import (
	"maps"
	"reflect"
	"testing"
)

// TestOriginal_UndoesDivision: what the tests did not change is as before the last division, and what
// they set is as they set it.
func TestOriginal_UndoesDivision(t *testing.T) {
	base := config{
		"kind":                   "KubeletConfiguration",
		"evictionHard":           map[string]any{"memory.available": "250Mi", "nodefs.available": "10%"},
		"evictionMinimumReclaim": map[string]any{"nodefs.available": "5%"},
	}
	dropIn := config{
		"evictionHard":            map[string]any{"memory.available": "125Mi", "nodefs.available": "500Mi"},
		"evictionSoft":            map[string]any{"memory.available": "250Mi", "nodefs.available": "10%"},
		"evictionSoftGracePeriod": map[string]any{"memory.available": "8760h", "nodefs.available": "8760h"},
		"systemReserved":          map[string]any{"memory": "125Mi"},
	}
	last, err := divide(base, dropIn)
	if err != nil {
		t.Fatal(err)
	}
	effective := maps.Clone(base)
	maps.Copy(effective, last.After)
	for name, test := range map[string]struct {
		set  config // by the tests
		want config
	}{
		"restored": {nil, base},
		"hard threshold": {
			config{"evictionHard": map[string]any{"nodefs.inodesFree": "600000"}},
			with(base, "evictionHard", map[string]any{"nodefs.inodesFree": "600000"}),
		},
		"reserve": {
			config{"kubeReserved": map[string]any{"memory": "5Gi"}},
			with(base, "kubeReserved", map[string]any{"memory": "5Gi"}),
		},
		"soft threshold": {
			config{
				"evictionHard": map[string]any{"memory.available": "0%"},
				"evictionSoft": map[string]any{"nodefs.available": "5000"}, "evictionSoftGracePeriod": map[string]any{"nodefs.available": "1m"},
			},
			with(with(with(base, "evictionHard", map[string]any{"memory.available": "0%"}),
				"evictionSoft", map[string]any{"nodefs.available": "5000"}), "evictionSoftGracePeriod", map[string]any{"nodefs.available": "1m"}),
		},
	} {
		written := maps.Clone(effective)
		maps.Copy(written, test.set)
		if got := original(written, last); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := original(base, division{}); !reflect.DeepEqual(got, base) {
		t.Errorf("before any division: %v", got)
	}
}

func with(c config, field string, value any) config {
	changed := maps.Clone(c)
	changed[field] = value
	return changed
}

func TestDivide_RefusesOtherValues(t *testing.T) {
	if _, err := divide(config{"evictionHard": "memory.available<1Mi"}, nil); err == nil {
		t.Error("a text was accepted for a map")
	}
}
