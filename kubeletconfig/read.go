package kubeletconfig

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/fields"
	"plimsoll.dev/plimsoll/signal"
)

// A Config is what a kubelet's configuration says about what it reports, evicts
// and collects by itself.
type Config struct {
	Hard, Soft []Threshold // in the order of signals
	// Grace is how long a soft threshold has to be met, by signal.
	Grace [signal.Count]time.Duration
	// TransitionPeriod is how long a condition stays True at least.
	TransitionPeriod time.Duration
	// StorageLimits: the kubelet evicts pods above their local-storage limits
	// (localStorageCapacityIsolation).
	StorageLimits bool
	ImageGC       ImageGC
}

// ImageGC is when a kubelet collects images.
type ImageGC struct {
	HighPercent, LowPercent int64
	MinimumAge, MaximumAge  time.Duration // 0: without
}

// The kubelet's defaults (kubelet.config.k8s.io/v1beta1, Kubernetes 1.36).
const (
	kubeletTransitionPeriod = 5 * time.Minute
	kubeletHighPercent      = 85
	kubeletLowPercent       = 80
	kubeletMinimumAge       = 2 * time.Minute
)

var kubeletHard = map[signal.Signal]string{
	signal.MemoryAvailable:   "100Mi",
	signal.NodefsAvailable:   "10%",
	signal.NodefsInodesFree:  "5%",
	signal.ImagefsAvailable:  "15%",
	signal.ImagefsInodesFree: "5%",
}

// kubeletGroup is what the apiVersion of a kubelet's configuration begins with.
const kubeletGroup = "kubelet.config.k8s.io/"

// Read reads a kubelet's configuration file, YAML or JSON.
// Fields that do not concern evictions are passed over, and so are signals that
// are not known: a kubelet of another version is no fault. Values that no
// kubelet would start with are; all of them come in one error of type
// [fields.Faults].
//
// Flags and drop-in files of the kubelet are not in this file.
func Read(data []byte) (Config, error) {
	var faults fields.Faults
	r := kubeletFile{values: map[string]fields.Value{}, faults: &faults}
	for _, e := range fields.Parse(data, &faults).Entries() {
		r.values[e.Key] = e.Value
	}
	if len(faults) == 0 {
		r.checkKind()
	}
	k := Config{
		Hard: r.hard(), Soft: r.thresholds("evictionSoft", nil),
		TransitionPeriod: r.period("evictionPressureTransitionPeriod", kubeletTransitionPeriod),
		StorageLimits:    r.values["localStorageCapacityIsolation"].Bool(true),
		ImageGC: ImageGC{
			HighPercent: r.values["imageGCHighThresholdPercent"].Int(kubeletHighPercent),
			LowPercent:  r.values["imageGCLowThresholdPercent"].Int(kubeletLowPercent),
			MinimumAge:  r.period("imageMinimumGCAge", kubeletMinimumAge),
			MaximumAge:  r.period("imageMaximumGCAge", 0),
		},
	}
	r.graces(&k)
	if err := faults.Err(); err != nil {
		return Config{}, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	return k, nil
}

// A kubeletFile is a configuration being read.
type kubeletFile struct {
	values map[string]fields.Value // by field
	faults *fields.Faults
}

func (r *kubeletFile) checkKind() {
	if kind := r.values["kind"].Text(); kind != "KubeletConfiguration" {
		r.faults.Add("kind", kind, "must be KubeletConfiguration: give the file that the kubelet's --config names")
	}
	if version := r.values["apiVersion"].Text(); !strings.HasPrefix(version, kubeletGroup) {
		r.faults.Add("apiVersion", version, "must begin with %s", kubeletGroup)
	}
}

// period reads a duration; left out and 0s mean the preset, as to the kubelet.
func (r *kubeletFile) period(field string, preset time.Duration) time.Duration {
	d := r.values[field].Duration(preset)
	if d < 0 {
		r.values[field].Fault("must not be negative")
	}
	if d == 0 {
		return preset
	}
	return d
}

// hard reads evictionHard. Its defaults apply where the whole map is left out,
// and for the signals left out of it only where the file asks for that.
func (r *kubeletFile) hard() []Threshold {
	if !r.values["evictionHard"].Present() || r.values["mergeDefaultEvictionSettings"].Bool(false) {
		return r.thresholds("evictionHard", kubeletHard)
	}
	return r.thresholds("evictionHard", nil)
}

// thresholds reads a map of thresholds over its presets, in the order of
// signals.
func (r *kubeletFile) thresholds(field string, presets map[signal.Signal]string) []Threshold {
	given := map[string]fields.Value{}
	for _, e := range r.values[field].Entries() {
		given[e.Key] = e.Value
	}
	var all []Threshold
	for s := range signal.All {
		text := presets[s]
		v, found := given[s.String()]
		if found {
			text = v.Text()
		}
		if text == "" && !found || text == "0%" || text == "100%" { // the latter switch a threshold off
			continue
		}
		t, err := ParseThreshold(s, text)
		if err != nil {
			v.Fault("%v", err)
			continue
		}
		all = append(all, t)
	}
	return all
}

// graces reads the grace periods of the soft thresholds.
func (r *kubeletFile) graces(k *Config) {
	given := map[string]fields.Value{}
	for _, e := range r.values["evictionSoftGracePeriod"].Entries() {
		given[e.Key] = e.Value
	}
	for _, t := range k.Soft {
		v, found := given[t.Signal.String()]
		if !found {
			r.faults.Add("evictionSoft["+t.Signal.String()+"]", t.Text, "has no entry in evictionSoftGracePeriod: a kubelet does not start with this")
			continue
		}
		if k.Grace[t.Signal] = v.Duration(0); k.Grace[t.Signal] < 0 {
			v.Fault("must not be negative")
		}
	}
}
