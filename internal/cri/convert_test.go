package cri

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func amount(v uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: v} }

func podMessage(uid string, workingSet, processes *runtimeapi.UInt64Value) *runtimeapi.PodSandboxStats {
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: "s" + uid, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Namespace: "n", Name: "p"}},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Memory:  &runtimeapi.MemoryUsage{Timestamp: 5e9, WorkingSetBytes: workingSet},
			Process: &runtimeapi.ProcessUsage{ProcessCount: processes},
		},
	}
}

// Faulty stats of some pods do not invalidate those of others.
func TestPodStats_DropsAbsurdEntries(t *testing.T) {
	bare := &runtimeapi.PodSandboxStats{Attributes: &runtimeapi.PodSandboxAttributes{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "bare"}}}
	noUID := podMessage("", amount(1), amount(1))
	minusOne := int64(-1)
	f := &fake{podStats: func(context.Context) (*runtimeapi.ListPodSandboxStatsResponse, error) {
		return &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{
			podMessage("negative", amount(uint64(minusOne)), amount(1<<60+1)),
			podMessage("max", amount(1<<60), amount(0)),
			{}, bare, noUID,
			podMessage("unreported", nil, nil),
		}}, nil
	}}
	got, err := f.open(t).PodStats(t.Context())
	if !errors.Is(err, ErrImplausible) || !strings.Contains(err.Error(), "stats of a pod without a UID") {
		t.Errorf("got error %v, want ErrImplausible for a pod without a UID", err)
	}
	at := time.Unix(5, 0)
	want := []PodStats{
		{UID: "negative", SandboxID: "snegative", Namespace: "n", Name: "p", Time: at},
		{UID: "max", SandboxID: "smax", Namespace: "n", Name: "p", Time: at, WorkingSet: Used{1 << 60, true}, Processes: Used{0, true}},
		{UID: "bare"},
		{UID: "unreported", SandboxID: "sunreported", Namespace: "n", Name: "p", Time: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Callers act upon these lists: one faulty entry makes the whole list an error.
func TestLists_RejectAbsurdEntries(t *testing.T) {
	good := &runtimeapi.Container{Id: "a", PodSandboxId: "s"}
	for fault, list := range map[string][]*runtimeapi.Container{
		"a container without an ID":     {good, {PodSandboxId: "s"}},
		"container b without a sandbox": {{Id: "b"}, good},
	} {
		f := &fake{containers: func(context.Context) (*runtimeapi.ListContainersResponse, error) {
			return &runtimeapi.ListContainersResponse{Containers: list}, nil
		}}
		if got, err := f.open(t).Containers(t.Context()); got != nil || !errors.Is(err, ErrImplausible) || !strings.Contains(err.Error(), "list containers: ") || !strings.HasSuffix(err.Error(), fault) {
			t.Errorf("got %v, error %v, want a suffix %q", got, err, fault)
		}
	}
	for fault, list := range map[string][]*runtimeapi.Image{
		"an image without an ID": {{Size: 1}},
		"the size of image i":    {{Id: "i", Size: math.MaxUint64}},
	} {
		f := &fake{images: func(context.Context) (*runtimeapi.ListImagesResponse, error) {
			return &runtimeapi.ListImagesResponse{Images: list}, nil
		}}
		if got, err := f.open(t).Images(t.Context()); got != nil || !errors.Is(err, ErrImplausible) || !strings.HasSuffix(err.Error(), fault) {
			t.Errorf("got %v, error %v, want a suffix %q", got, err, fault)
		}
	}
}

func TestContainerStatus_RejectsAbsurdResponse(t *testing.T) {
	for fault, s := range map[string]*runtimeapi.ContainerStatus{
		"a status without an ID": nil,
		"another container's ID": {Id: "other"},
	} {
		f := &fake{status: func(string) (*runtimeapi.ContainerStatusResponse, error) {
			return &runtimeapi.ContainerStatusResponse{Status: s}, nil
		}}
		if _, err := f.open(t).ContainerStatus(t.Context(), "x"); !errors.Is(err, ErrImplausible) || !strings.HasSuffix(err.Error(), fault) {
			t.Errorf("got error %v, want a suffix %q", err, fault)
		}
	}
}

func TestConvert_MapsFields(t *testing.T) {
	c, fault := container(&runtimeapi.Container{
		Id: "c", PodSandboxId: "s", Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3}, State: runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt: 7, Image: &runtimeapi.ImageSpec{Image: "app:1"}, ImageRef: "ref", ImageId: "id",
		Labels: map[string]string{labelUID: "u", labelNamespace: "n", labelName: "p"},
	})
	want := Container{ID: "c", SandboxID: "s", Name: "app", Attempt: 3, State: Exited, Created: time.Unix(0, 7),
		PodUID: "u", PodNamespace: "n", PodName: "p", Image: "app:1", ImageID: "id"}
	if c != want || fault != "" {
		t.Errorf("got %+v, fault %q, want %+v", c, fault, want)
	}
	for _, odd := range []runtimeapi.ContainerState{runtimeapi.ContainerState_CONTAINER_UNKNOWN, -1, 77} {
		if c, _ := container(&runtimeapi.Container{Id: "c", PodSandboxId: "s", State: odd, CreatedAt: -7, ImageRef: "ref"}); c.State != UnknownState || !c.Created.IsZero() || c.ImageID != "ref" {
			t.Errorf("state %d: got %+v, want an unknown state without a creation time", odd, c)
		}
	}
	s, _ := sandbox(&runtimeapi.PodSandbox{Id: "s", State: 9, CreatedAt: math.MinInt64})
	if s.Ready || !s.Created.IsZero() {
		t.Errorf("sandbox with invalid state and time: got %+v", s)
	}
	status, _ := containerStatus(&runtimeapi.ContainerStatus{Id: "c", LogPath: "/var/log/pods/x", FinishedAt: 9, Mounts: []*runtimeapi.Mount{
		{ContainerPath: "/m", Image: &runtimeapi.ImageSpec{Image: "model:1"}, Readonly: true}, {ContainerPath: "/h", HostPath: "/srv"},
	}})
	wantMounts := []Mount{{ContainerPath: "/m", Image: "model:1", ReadOnly: true}, {ContainerPath: "/h", HostPath: "/srv"}}
	if diff := cmp.Diff(wantMounts, status.Mounts); diff != "" || status.LogPath != "/var/log/pods/x" || !status.Started.IsZero() || status.Finished.IsZero() {
		t.Errorf("%+v%s", status, diff)
	}
}

func TestFilesystem_NeedsBytesAndInodes(t *testing.T) {
	id := &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/x"}
	for _, tc := range []struct {
		bytes, inodes *runtimeapi.UInt64Value
		want          Filesystem
	}{
		{amount(7), amount(8), Filesystem{Mountpoint: "/var/lib/x", UsedBytes: 7, UsedInodes: 8, UsageKnown: true}},
		{amount(7), nil, Filesystem{Mountpoint: "/var/lib/x"}},
		{amount(math.MaxUint64), amount(8), Filesystem{Mountpoint: "/var/lib/x"}},
	} {
		if got, fault := filesystem(&runtimeapi.FilesystemUsage{FsId: id, UsedBytes: tc.bytes, InodesUsed: tc.inodes}); got != tc.want || fault != "" {
			t.Errorf("got %+v, fault %q, want %+v", got, fault, tc.want)
		}
	}
	if _, fault := filesystem(&runtimeapi.FilesystemUsage{UsedBytes: amount(1)}); fault == "" {
		t.Error("a filesystem without a mountpoint was accepted")
	}
}

func checkAmounts(t *testing.T, amounts ...Used) {
	t.Helper()
	for _, u := range amounts {
		if u.Known && (u.Value < 0 || u.Value > maxAmount) || !u.Known && u.Value != 0 {
			t.Errorf("implausible amount %+v", u)
		}
	}
}

func checkTimes(t *testing.T, times ...time.Time) {
	t.Helper()
	for _, at := range times {
		if !at.IsZero() && at.UnixNano() <= 0 {
			t.Errorf("a time before 1970: %v", at)
		}
	}
}

func checkContainerStats(t *testing.T, s ContainerStats) {
	t.Helper()
	if s.ID == "" {
		t.Error("stats without a container ID")
	}
	checkAmounts(t, s.WorkingSet, s.WritableBytes, s.WritableInodes)
	checkTimes(t, s.Time)
}

// FuzzConvert decodes any bytes as each of the messages. The converters do not crash, and return no
// implausible number.
func FuzzConvert(f *testing.F) {
	seed := func(m proto.Message) {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	seed(podMessage("u", amount(math.MaxUint64), amount(3)))
	seed(&runtimeapi.Container{Id: "c", PodSandboxId: "s", State: 3, CreatedAt: -1})
	seed(&runtimeapi.PodSandbox{Id: "s", State: -4, CreatedAt: math.MaxInt64})
	seed(&runtimeapi.Image{Id: "i", Size: math.MaxUint64})
	seed(&runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: amount(1 << 63)})
	seed(&runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: "c"}, Memory: &runtimeapi.MemoryUsage{Timestamp: -1, WorkingSetBytes: amount(1)}})
	seed(&runtimeapi.ContainerStatus{Id: "c", Mounts: []*runtimeapi.Mount{{}}})
	seed(&runtimeapi.ContainerEventResponse{ContainerEventType: -9, CreatedAt: -1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if m := new(runtimeapi.PodSandboxStats); proto.Unmarshal(data, m) == nil {
			if s, fault := podStats(m); fault == "" {
				if s.UID == "" {
					t.Error("stats without a pod UID")
				}
				checkAmounts(t, s.WorkingSet, s.Processes)
				checkTimes(t, s.Time)
				for _, k := range s.Containers {
					checkContainerStats(t, k)
				}
			}
		}
		if m := new(runtimeapi.ContainerStats); proto.Unmarshal(data, m) == nil {
			if s, fault := containerStats(m); fault == "" {
				checkContainerStats(t, s)
			}
		}
		if m := new(runtimeapi.Container); proto.Unmarshal(data, m) == nil {
			if c, fault := container(m); fault == "" && (c.ID == "" || c.SandboxID == "" || c.State > Exited) {
				t.Errorf("%+v", c)
			}
		}
		if m := new(runtimeapi.PodSandbox); proto.Unmarshal(data, m) == nil {
			if s, fault := sandbox(m); fault == "" && s.ID == "" {
				t.Errorf("%+v", s)
			}
		}
		if m := new(runtimeapi.Image); proto.Unmarshal(data, m) == nil {
			if i, fault := image(m); fault == "" && (i.ID == "" || i.Size < 0 || i.Size > maxAmount) {
				t.Errorf("%+v", i)
			}
		}
		if m := new(runtimeapi.FilesystemUsage); proto.Unmarshal(data, m) == nil {
			if s, fault := filesystem(m); fault == "" && (s.Mountpoint == "" || s.UsedBytes < 0 || s.UsedInodes < 0) {
				t.Errorf("%+v", s)
			}
		}
		if m := new(runtimeapi.ContainerStatus); proto.Unmarshal(data, m) == nil {
			if s, fault := containerStatus(m); fault == "" {
				checkTimes(t, s.Created, s.Started, s.Finished)
			}
		}
		if m := new(runtimeapi.ContainerEventResponse); proto.Unmarshal(data, m) == nil {
			if e := event(m); e.Kind >= Reconnected {
				t.Errorf("%+v", e)
			}
		}
	})
}
