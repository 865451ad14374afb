package simulate_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

// segments is a recording of one run in the making.
type segments struct {
	t       *testing.T
	begun   time.Time
	encoder *recording.Encoder
	number  uint64
	data    []byte
}

func newSegments(t *testing.T) *segments {
	t.Helper()
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &segments{t: t, begun: begun, encoder: recording.NewEncoder(recording.Header{CgroupVersion: 2, Started: begun, Config: []byte("{}")})}
	s.begin()
	return s
}

// begin begins a segment.
func (s *segments) begin() {
	s.t.Helper()
	s.number++
	s.encoder.Reset(s.number)
	data, err := s.encoder.Header(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	s.data = data
}

// check adds a check, far from any threshold of memory, with the measured pods.
func (s *segments) check(seconds int, measured ...signals.Candidate) {
	s.t.Helper()
	c := &recording.Check{Snapshot: signals.Snapshot{At: s.begun.Add(time.Duration(seconds) * time.Second)}}
	c.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(3<<30, 4<<30, c.Snapshot.At)
	if len(measured) > 0 {
		c.Act = &recording.Act{Measured: [][]signals.Candidate{measured}}
	}
	data, ok := s.encoder.Check(s.data, c)
	if !ok {
		s.t.Fatal("a check was not encoded")
	}
	s.data = data
}

// usage adds a usage of pods.
func (s *segments) usage(seconds int, gone []*signals.Pod, pods ...*signals.Pod) {
	s.t.Helper()
	u := &recording.Usage{At: s.begun.Add(time.Duration(seconds) * time.Second)}
	for _, p := range pods {
		u.Pods = append(u.Pods, recording.PodUsage{Pod: p})
	}
	for _, p := range gone {
		u.Gone = append(u.Gone, recording.Gone{Pod: p})
	}
	data, ok := s.encoder.Usage(s.data, u)
	if !ok {
		s.t.Fatal("a usage was not encoded")
	}
	s.data = data
}

// craft adds pods of any JSON, as no encoder writes them, and usages that name each of them.
func (s *segments) craft(pods ...string) {
	const atOnce = 1 << 14 // pods of a usage
	for number, text := range pods {
		payload := binary.AppendUvarint([]byte{2}, uint64(number)) // the kind of a pod
		s.data = append(s.data, sealed(append(payload, text...))...)
	}
	for first := 0; first < len(pods); first += atOnce {
		n := min(len(pods)-first, atOnce)
		payload := []byte{4, 1, 0, 0, 0} // the kind of a usage: absolute, at the start of the run, without values of the node
		payload = binary.AppendUvarint(payload, uint64(n))
		for number := first; number < first+n; number++ {
			payload = append(binary.AppendUvarint(payload, uint64(number)), 0) // no value
		}
		s.data = append(s.data, sealed(append(payload, 0))...) // no pod has ended
	}
}

// A reader bounds the pods of a segment. A run with many segments has more of them.
func TestCompareAndExport_BoundNumberOfPods(t *testing.T) {
	s, configuration := newSegments(t), other(t, "300Mi", "")
	for segment := range 2 {
		if segment > 0 {
			s.begin()
		}
		pods := make([]string, 33_000)
		for n := range pods {
			pods[n] = fmt.Sprintf(`{"UID":"%d-%d","Name":"p-%d-%d"}`, segment, n, segment, n)
		}
		s.craft(pods...)
		s.check(10 * segment)
		var want error
		if segment > 0 {
			want = simulate.ErrTooManyPods
		}
		if _, err := simulate.CompareRecording(s.data, configuration); !errors.Is(err, want) {
			t.Errorf("%d segments: %v, want %v", segment+1, err, want)
		}
	}
	if err := simulate.ExportScenario(s.data, io.Discard); !errors.Is(err, simulate.ErrTooManyPods) {
		t.Errorf("exported: %v", err)
	}
}

// 63 KB of JSON with empty containers are 3 MB in memory.
func TestCompareRecording_BoundsSizeOfPods(t *testing.T) {
	s, configuration := newSegments(t), other(t, "300Mi", "")
	containers := strings.Repeat("{},", 20_999) + "{}"
	for segment := range 2 {
		if segment > 0 {
			s.begin()
		}
		pods := make([]string, 6)
		for n := range pods {
			pods[n] = fmt.Sprintf(`{"UID":"%d-%d","Containers":[%s]}`, segment, n, containers)
		}
		s.craft(pods...)
		s.check(10 * segment)
		var want error
		if segment > 0 {
			want = simulate.ErrLargePods
		}
		if _, err := simulate.CompareRecording(s.data, configuration); !errors.Is(err, want) {
			t.Errorf("%d segments: %v, want %v", segment+1, err, want)
		}
	}
}

// The usage of a container has 5 bytes in a check, and 144 in memory.
func TestCompareRecording_BoundsMeasuredParts(t *testing.T) {
	s, configuration := newSegments(t), other(t, "300Mi", "")
	usage := &signals.Usage{Containers: make([]signals.ContainerUsage, 1000)}
	for segment := range 2 {
		if segment > 0 {
			s.begin()
		}
		measured := make([]signals.Candidate, 150)
		for n := range measured {
			measured[n] = signals.Candidate{Pod: podOf(fmt.Sprintf("p-%d-%d", segment, n)), Usage: usage}
		}
		s.check(10*segment, measured...)
		var want error
		if segment > 0 {
			want = simulate.ErrLargePods
		}
		if _, err := simulate.CompareRecording(s.data, configuration); !errors.Is(err, want) {
			t.Errorf("%d segments: %v, want %v", segment+1, err, want)
		}
	}
}

// Pods count for the size of a scenario before its first check. The UID of a mirror pod is in its text twice, with six bytes
// for each of these characters.
func TestExportScenario_BoundsSizeOfPods(t *testing.T) {
	s := newSegments(t)
	uid := strings.Repeat("<", 60_000)
	for segment := range 2 {
		if segment > 0 {
			s.begin()
		}
		pods := make([]string, 48)
		for n := range pods {
			pods[n] = fmt.Sprintf(`{"UID":"%s","Name":"p-%d-%d","Protection":%d}`, uid, segment, n, signals.Mirror)
		}
		s.craft(pods...)
		want := recording.ErrNoChecks
		if segment > 0 {
			want = simulate.ErrTooManyData
		}
		if err := simulate.ExportScenario(s.data, io.Discard); !errors.Is(err, want) {
			t.Errorf("%d segments: %v, want %v", segment+1, err, want)
		}
	}
}

// Of several pods of a name between two checks the last one is added, and it is not removed.
func TestExportScenario_KeepsLastPodOfName(t *testing.T) {
	versions := make([]*signals.Pod, 4)
	for n := range versions {
		versions[n] = podOf("a")
		versions[n].UID = fmt.Sprintf("uid-%d", n)
	}
	b, c := podOf("b"), podOf("c")
	s := newSegments(t)
	s.usage(0, nil, versions[0], b, c)
	s.usage(1, nil, versions[1], b, c) // in place of the first one, behind the others
	s.check(2)
	s.usage(3, []*signals.Pod{versions[1], c}, versions[2], b)
	s.usage(4, []*signals.Pod{b}, versions[3])
	s.check(5)
	text, scenario := exported(t, s.data)
	names := func(pods []signals.Pod) (all []string) {
		for i := range pods {
			all = append(all, pods[i].Name+" "+pods[i].UID)
		}
		return all
	}
	if got, want := names(scenario.Pods), []string{"b uid-b", "c uid-c", "a uid-1"}; !slices.Equal(got, want) {
		t.Errorf("%q at the begin, want %q in\n%s", got, want, text)
	}
	if len(scenario.Steps) != 2 {
		t.Fatalf("%d steps in\n%s", len(scenario.Steps), text)
	}
	step := &scenario.Steps[1]
	if got := names(step.Add); !slices.Equal(got, []string{"a uid-3"}) || !slices.Equal(step.Remove, []string{"default/c", "default/b"}) {
		t.Errorf("%q added, %q removed in\n%s", got, step.Remove, text)
	}
}
