package signal_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/signal"
)

// The names, conditions and resources are the kubelet's, written out again so
// that a slip in the table shows.
func TestTableOfSignals(t *testing.T) {
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
	units := map[signal.Unit]string{signal.UnitBytes: "bytes", signal.UnitInodes: "inodes", signal.UnitPIDs: "pids"}
	var got []string
	for s := range signal.All {
		d := s.Definition()
		got = append(got, strings.Join([]string{d.Name, string(d.Resource), d.Condition.String(), units[d.Unit]}, " "))
		if back, err := signal.Parse(s.String()); err != nil || back != s {
			t.Errorf("Parse(%s) = %s, %v", s, back, err)
		}
		if s.OfMemory() != strings.HasSuffix(strings.ToLower(d.Name), "memory.available") {
			t.Errorf("%s: OfMemory is %v", s, s.OfMemory())
		}
		if fs, _, _ := strings.Cut(d.Name, "."); (d.Filesystem == signal.NoFilesystem) != !strings.HasSuffix(fs, "fs") {
			t.Errorf("%s belongs to filesystem %d", s, d.Filesystem)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("table:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range signal.All {
		break // an iteration that is left early must end
	}
}

func TestUnknownNamesAreRefusedWithTheKnownOnes(t *testing.T) {
	_, err := signal.Parse("memory.free")
	if err == nil || !strings.Contains(err.Error(), `unsupported eviction signal "memory.free"`) || !strings.Contains(err.Error(), "pid.available") {
		t.Errorf("err = %v", err)
	}
	if _, err := signal.ParseLayout("raid"); err == nil || !strings.Contains(err.Error(), "dedicated") {
		t.Errorf("err = %v", err)
	}
	if got := signal.Signal(200).String(); got != "signal(200)" {
		t.Errorf("an invalid signal prints %s", got)
	}
}

// What reclaim runs and what is measured of pods, by layout: facts of the
// kubelet, section A.
func TestTableOfFilesystems(t *testing.T) {
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
		layout, err := signal.ParseLayout(layoutName)
		if err != nil || layout.String() != layoutName {
			t.Fatal(layout, err)
		}
		s, err := signal.Parse(signalName)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(s.In(layout)); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}

func describe(p signal.FilesystemPlan) string {
	var reclaim, measure []string
	for _, r := range p.Reclaim {
		reclaim = append(reclaim, r.String())
	}
	for _, place := range []struct {
		storage signal.Storage
		name    string
	}{{signal.Rootfs, "rootfs"}, {signal.Logs, "logs"}, {signal.LocalVolumes, "volumes"}} {
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

func TestWhatContainerfsFollows(t *testing.T) {
	for s := range signal.All {
		for layout, filesystem := range map[signal.Layout]string{signal.Single: "nodefs", signal.Split: "nodefs", signal.Dedicated: "imagefs"} {
			followed, ok := s.ContainerfsFollows(layout)
			rest, derived := strings.CutPrefix(s.String(), "containerfs")
			if ok != derived || derived && followed.String() != filesystem+rest {
				t.Errorf("%s in %s follows %s, %v", s, layout, followed, ok)
			}
		}
	}
}

func TestSetsListNamesInOrderAndAreNeverNil(t *testing.T) {
	var signals signal.Set
	var conditions signal.ConditionSet
	if names := signals.Names(); names == nil || len(names) != 0 {
		t.Errorf("the empty set lists %#v", names)
	}
	if names := conditions.Names(); names == nil || len(names) != 0 {
		t.Errorf("the empty set lists %#v", names)
	}
	signals.Add(signal.PIDAvailable)
	signals.Add(signal.NodefsInodesFree)
	signals.Add(signal.NodefsInodesFree)
	conditions.Add(signal.PIDPressure)
	conditions.Add(signal.DiskPressure)
	if got := strings.Join(signals.Names(), " "); got != "nodefs.inodesFree pid.available" || signals.Len() != 2 {
		t.Errorf("signals: %s", got)
	}
	if got := strings.Join(conditions.Names(), " "); got != "DiskPressure PIDPressure" || conditions.Has(signal.MemoryPressure) {
		t.Errorf("conditions: %s", got)
	}
}

func TestTheZeroObservationIsUnknown(t *testing.T) {
	var zero signal.Observation
	if zero.Known || signal.Unknown("no such file").Known || signal.Unknown("no such file").Cause == "" {
		t.Error("what was never read must not look like zero bytes")
	}
}
