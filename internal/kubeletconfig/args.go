package kubeletconfig

import (
	"encoding/json"
	"strconv"
	"strings"
)

// shape is the syntax of the value of a kubelet's flag about evictions.
type shape uint8

const (
	scalar   shape = iota
	number         // a whole number
	truth          // true or false; true where no value is given
	lessMap        // key<value,…
	equalMap       // key=value,…
	list           // a,b,…
)

var flags = map[string]struct {
	field string
	shape shape
}{
	"eviction-hard":                       {"evictionHard", lessMap},
	"eviction-soft":                       {"evictionSoft", lessMap},
	"eviction-soft-grace-period":          {"evictionSoftGracePeriod", equalMap},
	"eviction-minimum-reclaim":            {"evictionMinimumReclaim", equalMap},
	"eviction-max-pod-grace-period":       {"evictionMaxPodGracePeriod", number},
	"eviction-pressure-transition-period": {"evictionPressureTransitionPeriod", scalar},
	"enforce-node-allocatable":            {"enforceNodeAllocatable", list},
	"kube-reserved":                       {"kubeReserved", equalMap},
	"system-reserved":                     {"systemReserved", equalMap},
	"local-storage-capacity-isolation":    {"localStorageCapacityIsolation", truth},
	"image-gc-high-threshold":             {"imageGCHighThresholdPercent", number},
	"image-gc-low-threshold":              {"imageGCLowThresholdPercent", number},
	"minimum-image-ttl-duration":          {"imageMinimumGCAge", scalar},
	"volume-stats-agg-period":             {"volumeStatsAggPeriod", scalar},
}

// Flag returns the last value of a flag on a command line.
func Flag(args []string, name string) (value string, given bool) {
	for i, arg := range args {
		flag, v, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if !strings.HasPrefix(arg, "-") || flag != name {
			continue
		}
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			v = args[i+1]
		}
		value, given = v, true
	}
	return value, given
}

// fromArgs converts the flags about evictions to a document; nil if there are none.
func fromArgs(args []string) []byte {
	document := map[string]any{}
	for name, f := range flags {
		if value, given := Flag(args, name); given {
			document[f.field] = f.shape.read(value)
		}
	}
	if len(document) == 0 {
		return nil
	}
	text, err := json.Marshal(document)
	if err != nil { // strings, numbers and maps of strings always have a JSON encoding
		return nil
	}
	return text
}

// read converts a value to the form in a file. An invalid value stays as it is, and becomes a fault
// of the field.
func (s shape) read(value string) any {
	switch s {
	case number:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	case truth:
		if value == "" {
			return true
		}
		if b, err := strconv.ParseBool(value); err == nil {
			return b
		}
	case lessMap:
		return pairs(value, "<")
	case equalMap:
		return pairs(value, "=")
	case list:
		return strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	}
	return value
}

func pairs(text, between string) map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(pair, between); strings.TrimSpace(key) != "" {
			all[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return all
}
