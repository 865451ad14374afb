package kubeletconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Config is the part of a kubelet's configuration about its own reports, evictions and garbage
// collection.
type Config struct {
	Hard, Soft []Threshold // in the order of signals
	// Grace is the time for which a soft threshold has to be met, by signal.
	Grace [signals.Count]time.Duration
	// TransitionPeriod is the minimum time for which a condition stays True.
	TransitionPeriod time.Duration
	// StorageLimits: the kubelet evicts pods above their local-storage limits
	// (localStorageCapacityIsolation).
	StorageLimits bool
	ImageGC       ImageGC
	// CgroupRoot is the parent of the kubelet's cgroups for pods, without the suffix of its driver;
	// empty for the root.
	CgroupRoot string
}

// ImageGC is the kubelet's configuration of image collection.
type ImageGC struct {
	HighPercent, LowPercent int64
	MinimumAge, MaximumAge  time.Duration // 0: disabled
}

// The kubelet's defaults (kubelet.config.k8s.io/v1beta1, Kubernetes 1.36).
const (
	kubeletTransitionPeriod = 5 * time.Minute
	kubeletHighPercent      = 85
	kubeletLowPercent       = 80
	kubeletMinimumAge       = 2 * time.Minute
)

var kubeletHard = map[signals.Signal]string{
	signals.MemoryAvailable:   "100Mi",
	signals.NodefsAvailable:   "10%",
	signals.NodefsInodesFree:  "5%",
	signals.ImagefsAvailable:  "15%",
	signals.ImagefsInodesFree: "5%",
}

// kubeletGroup is the prefix of the apiVersion of a kubelet's configuration.
const kubeletGroup = "kubelet.config.k8s.io/"

// Sources are all sources of a kubelet's configuration.
type Sources struct {
	File    []byte   // the file of --config
	DropIns [][]byte // files *.conf below the directory of --config-dir, in the order of their names
	Args    []string // its command line, which takes precedence
}

// Read reads a kubelet's configuration file alone: without drop-in files and flags, which may
// override it. Returns [strictyaml.Faults] as [Sources.Read] does.
func Read(data []byte) (Config, error) { return Sources{File: data}.Read() }

// Read reads a kubelet's configuration, YAML or JSON. Fields that do not concern evictions are
// ignored, as are unknown signals: a kubelet of another version is no fault. Returns
// [strictyaml.Faults] with all values that no kubelet would start with.
func (s Sources) Read() (Config, error) {
	var faults strictyaml.Faults
	c := s.open(&faults).config()
	if root, given := Flag(s.Args, "cgroup-root"); given {
		c.CgroupRoot = root
	}
	if err := faults.Err(); err != nil {
		return Config{}, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	return c, nil
}

// ReadConfigz reads a kubelet's response at /configz: its configuration with all defaults, flags
// and drop-in files. Returns an error if the response is no such configuration.
func ReadConfigz(data []byte) (Config, error) {
	var faults strictyaml.Faults
	r := kubeletFile{faults: &faults}
	for _, e := range strictyaml.Parse(data, &faults).Entries() {
		if e.Key == "kubeletconfig" {
			r.documents = []document{read(e.Value)}
		}
	}
	if len(faults) == 0 && len(r.documents) == 0 {
		faults.Add("kubeletconfig", "", "is not in the answer: it is not that of a kubelet's /configz")
	}
	c := r.config()
	if err := faults.Err(); err != nil {
		return Config{}, fmt.Errorf("read the kubelet's /configz: %w", err)
	}
	return c, nil
}

// document is one source, by field.
type document struct {
	values map[string]strictyaml.Value
	// whole states that a map of this document replaces the previous one, as a flag's does.
	// Otherwise it is merged key by key.
	whole bool
}

func read(v strictyaml.Value) document {
	d := document{values: map[string]strictyaml.Value{}}
	for _, e := range v.Entries() {
		d.values[e.Key] = e.Value
	}
	return d
}

// kubeletFile is the state of reading a configuration.
type kubeletFile struct {
	documents []document // a later one takes precedence
	faults    *strictyaml.Faults
}

func (s Sources) open(faults *strictyaml.Faults) *kubeletFile {
	r := &kubeletFile{faults: faults}
	for _, data := range append([][]byte{s.File}, s.DropIns...) {
		before := len(*faults)
		d := read(strictyaml.Parse(data, faults))
		if len(*faults) == before {
			d.checkKind(faults)
		}
		r.documents = append(r.documents, d)
	}
	if flags := fromArgs(s.Args); flags != nil {
		d := read(strictyaml.Parse(flags, faults))
		d.whole = true
		r.documents = append(r.documents, d)
	}
	return r
}

func (r *kubeletFile) config() Config {
	k := Config{
		Hard: r.hard(), Soft: r.thresholds("evictionSoft", nil),
		TransitionPeriod: r.period("evictionPressureTransitionPeriod", kubeletTransitionPeriod),
		StorageLimits:    r.value("localStorageCapacityIsolation").Bool(true),
		ImageGC: ImageGC{
			HighPercent: r.value("imageGCHighThresholdPercent").Int(kubeletHighPercent),
			LowPercent:  r.value("imageGCLowThresholdPercent").Int(kubeletLowPercent),
			MinimumAge:  r.period("imageMinimumGCAge", kubeletMinimumAge),
			MaximumAge:  r.period("imageMaximumGCAge", 0),
		},
	}
	k.CgroupRoot = r.value("cgroupRoot").Text()
	r.graces(&k)
	return k
}

// value returns a field of the last document that has it.
func (r *kubeletFile) value(field string) (v strictyaml.Value) {
	for _, d := range r.documents {
		if given := d.values[field]; given.Present() {
			v = given
		}
	}
	return v
}

// enforcesPods reports whether the kubelet limits the memory of all pods together, and applies its
// hard memory thresholds to that limit. It does by default.
func (r *kubeletFile) enforcesPods() bool {
	v := r.value("enforceNodeAllocatable")
	return !v.Present() || slices.Contains(texts(v.List()), "pods")
}

// entries returns the merged map of all documents.
func (r *kubeletFile) entries(field string) map[string]strictyaml.Value {
	all := map[string]strictyaml.Value{}
	for _, d := range r.documents {
		if d.whole && d.values[field].Present() {
			clear(all)
		}
		for _, e := range d.values[field].Entries() {
			all[e.Key] = e.Value
		}
	}
	return all
}

func (d document) checkKind(faults *strictyaml.Faults) {
	if kind := d.values["kind"].Text(); kind != "KubeletConfiguration" {
		faults.Add("kind", kind, "must be KubeletConfiguration: give the file that the kubelet's --config names")
	}
	if version := d.values["apiVersion"].Text(); !strings.HasPrefix(version, kubeletGroup) {
		faults.Add("apiVersion", version, "must begin with %s", kubeletGroup)
	}
}

// period reads a duration. A missing one and 0s mean the preset, as in the kubelet.
func (r *kubeletFile) period(field string, preset time.Duration) time.Duration {
	d := r.value(field).Duration(preset)
	if d < 0 {
		r.value(field).Fault("must not be negative")
	}
	if d == 0 {
		return preset
	}
	return d
}

// hard reads evictionHard. Its defaults apply if the whole map is missing. For single missing
// signals they apply only if the file requests that.
func (r *kubeletFile) hard() []Threshold {
	if !r.value("evictionHard").Present() || r.value("mergeDefaultEvictionSettings").Bool(false) {
		return r.thresholds("evictionHard", kubeletHard)
	}
	return r.thresholds("evictionHard", nil)
}

// thresholds reads a map of thresholds over its presets, in the order of signals.
func (r *kubeletFile) thresholds(field string, presets map[signals.Signal]string) []Threshold {
	given := r.entries(field)
	var all []Threshold
	for s := range signals.All {
		text := presets[s]
		v, found := given[s.String()]
		if found {
			text = v.Text()
		}
		if text == "" && !found || text == "0%" || text == "100%" { // the latter two switch a threshold off
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
	given := r.entries("evictionSoftGracePeriod")
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
