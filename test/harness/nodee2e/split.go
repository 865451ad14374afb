package main

import (
	"fmt"
	"maps"
	"reflect"
)

// config is a KubeletConfiguration, as decoded from YAML.
type config map[string]any

// divided are the fields that the import changes in a kubelet's configuration.
var divided = []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "systemReserved"}

// division is one division of a configuration: the divided fields as the tests wrote them, and as the
// kubelet got them.
type division struct {
	Before config `json:"before"`
	After  config `json:"after"`
}

// original returns what the tests want of a configuration that they wrote. The tests begin with the
// kubelet's effective configuration. A divided field that still has the value of the last division is
// one that they did not set, so its value before that division counts.
func original(written config, last division) config {
	want := maps.Clone(written)
	for _, field := range divided {
		if !same(written[field], last.After[field]) {
			continue
		}
		if before, there := last.Before[field]; there {
			want[field] = before
		} else {
			delete(want, field)
		}
	}
	return want
}

// divide returns the division of a configuration by a drop-in file, which a kubelet merges by key.
func divide(file, dropIn config) (division, error) {
	d := division{Before: config{}, After: config{}}
	for _, field := range divided {
		base, err := mapping(file, field)
		if err != nil {
			return division{}, err
		}
		over, err := mapping(dropIn, field)
		if err != nil {
			return division{}, err
		}
		if base != nil {
			d.Before[field] = base
		}
		if base == nil && over == nil {
			continue
		}
		merged := map[string]any{}
		maps.Copy(merged, base)
		maps.Copy(merged, over)
		d.After[field] = merged
	}
	return d, nil
}

func mapping(c config, field string) (map[string]any, error) {
	value := c[field]
	if value == nil {
		return nil, nil
	}
	m, is := value.(map[string]any)
	if !is {
		return nil, fmt.Errorf("%s of a kubelet's configuration is %v: want a map", field, value)
	}
	return m, nil
}

// same compares maps of the configuration. An empty one and a missing one are the same: the kubelet
// reports neither.
func same(a, b any) bool {
	return empty(a) && empty(b) || reflect.DeepEqual(a, b)
}

func empty(value any) bool {
	m, is := value.(map[string]any)
	return value == nil || is && len(m) == 0
}
