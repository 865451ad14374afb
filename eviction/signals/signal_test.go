package signals_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// The names, conditions and resources are those of the kubelet, repeated here to detect mistakes
// in the table.
func TestSignal_DefinitionsMatchKubelet(t *testing.T) {
	want := []string{
		"memory.available memory MemoryPressure bytes",
		"allocatableMemory.available memory MemoryPressure bytes",
		"nodefs.available ephemeral-storage DiskPressure bytes",
		"nodefs.inodesFree inodes DiskPressure inodes",
		"imagefs.available ephemeral-storage DiskPressure bytes",
		"imagefs.inodesFree inodes DiskPressure inodes",
		"containerfs.available ephemeral-storage DiskPressure bytes",
		"containerfs.inodesFree inodes DiskPressure inodes",
		"pid.available pids PIDPressure pids",
	}
	units := map[signals.Unit]string{signals.UnitBytes: "bytes", signals.UnitInodes: "inodes", signals.UnitPIDs: "pids"}
	var got []string
	for s := range signals.All {
		d := s.Definition()
		got = append(got, strings.Join([]string{d.Name, string(d.Resource), d.Condition.String(), units[d.Unit]}, " "))
		if back, err := signals.Parse(s.String()); err != nil || back != s {
			t.Errorf("Parse(%s) = %s, %v", s, back, err)
		}
		if s.OfMemory() != strings.HasSuffix(strings.ToLower(d.Name), "memory.available") {
			t.Errorf("%s: OfMemory is %v", s, s.OfMemory())
		}
		if fs, _, _ := strings.Cut(d.Name, "."); (d.Filesystem == signals.NoFilesystem) != !strings.HasSuffix(fs, "fs") {
			t.Errorf("%s: got filesystem %d", s, d.Filesystem)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("table:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range signals.All {
		break // All must support an early end of the iteration
	}
}

func TestParse_UnknownNameListsKnownOnes(t *testing.T) {
	_, err := signals.Parse("memory.free")
	if err == nil || !strings.Contains(err.Error(), `unsupported eviction signal "memory.free"`) || !strings.Contains(err.Error(), "pid.available") {
		t.Errorf("err = %v", err)
	}
	if _, err := signals.ParseLayout("raid"); err == nil || !strings.Contains(err.Error(), "dedicated") {
		t.Errorf("err = %v", err)
	}
	if got := signals.Signal(200).String(); got != "signal(200)" {
		t.Errorf("invalid signal prints %s", got)
	}
}

// Garbage collection and measured usage of pods by layout: facts of the kubelet, section A.
func TestSignal_FilesystemPlans(t *testing.T) {
	rows := map[string]string{
		"single nodefs.available":           "containers images: rootfs logs volumes",
		"single imagefs.available":          "containers images: rootfs logs volumes",
		"single containerfs.available":      "containers images: rootfs logs volumes",
		"dedicated nodefs.available":        ": logs volumes",
		"dedicated imagefs.available":       "containers images: rootfs",
		"dedicated containerfs.available":   "containers images: rootfs",
		"split nodefs.available":            "containers: rootfs logs volumes",
		"split imagefs.available":           "images:",
		"split containerfs.available":       "containers: rootfs logs volumes",
		"single nodefs.inodesFree":          "containers images: rootfs logs volumes",
		"dedicated containerfs.inodesFree":  "containers images: rootfs",
		"split imagefs.inodesFree":          "images:",
		"single memory.available":           ":",
		"dedicated pid.available":           ":",
		"split allocatableMemory.available": ":",
	}
	for row, want := range rows {
		layoutName, signalName, _ := strings.Cut(row, " ")
		layout, err := signals.ParseLayout(layoutName)
		if err != nil || layout.String() != layoutName {
			t.Fatal(layout, err)
		}
		s, err := signals.Parse(signalName)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(s.In(layout)); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}

func describe(p signals.FilesystemPlan) string {
	var reclaim, measure []string
	for _, r := range p.Reclaim {
		reclaim = append(reclaim, r.String())
	}
	for _, place := range []struct {
		storage signals.Storage
		name    string
	}{{signals.Rootfs, "rootfs"}, {signals.Logs, "logs"}, {signals.LocalVolumes, "volumes"}} {
		if p.Measure.Has(place.storage) {
			measure = append(measure, place.name)
		}
	}
	text := strings.Join(reclaim, " ") + ":"
	if len(measure) > 0 {
		text += " " + strings.Join(measure, " ")
	}
	return text
}

func TestSignal_ContainerfsFollows(t *testing.T) {
	for s := range signals.All {
		for layout, filesystem := range map[signals.Layout]string{signals.Single: "nodefs", signals.Split: "nodefs", signals.Dedicated: "imagefs"} {
			followed, ok := s.ContainerfsFollows(layout)
			rest, derived := strings.CutPrefix(s.String(), "containerfs")
			if ok != derived || derived && followed.String() != filesystem+rest {
				t.Errorf("%s in %s follows %s, %v", s, layout, followed, ok)
			}
		}
	}
}

func TestSet_NamesAreOrderedAndNeverNil(t *testing.T) {
	var set signals.Set
	var conditions signals.ConditionSet
	if names := set.Names(); names == nil || len(names) != 0 {
		t.Errorf("empty set: got names %#v", names)
	}
	if names := conditions.Names(); names == nil || len(names) != 0 {
		t.Errorf("empty set: got names %#v", names)
	}
	set.Add(signals.PIDAvailable)
	set.Add(signals.NodefsInodesFree)
	set.Add(signals.NodefsInodesFree)
	conditions.Add(signals.PIDPressure)
	conditions.Add(signals.DiskPressure)
	if got := strings.Join(set.Names(), " "); got != "nodefs.inodesFree pid.available" || set.Len() != 2 {
		t.Errorf("signals: %s", got)
	}
	if got := strings.Join(conditions.Names(), " "); got != "DiskPressure PIDPressure" || conditions.Has(signals.MemoryPressure) {
		t.Errorf("conditions: %s", got)
	}
}

func TestObservation_ZeroIsUnknown(t *testing.T) {
	var zero signals.Observation
	if zero.Known || signals.Unknown("no such file").Known || signals.Unknown("no such file").Cause == "" {
		t.Error("an observation that was never read is known, or has no cause")
	}
}
