package eviction_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

func quantity(text string) signals.Quantity { return value(text).Quantity }

func seconds(n int64) *int64 { return &n }

// Departure 7, and the kubelet's rule for a maximum of 0 or more.
func TestEvictionFor_GracePeriod(t *testing.T) {
	for _, tc := range []struct {
		maximum int64
		own     *int64
		want    int64
	}{
		{30, seconds(10), 10}, {30, seconds(60), 30}, {30, nil, 30},
		{0, seconds(60), 1}, {0, nil, 1}, {5, seconds(0), 1}, {5, seconds(-3), 1},
		{-1, seconds(45), 45}, {-1, nil, 30}, {-1, seconds(0), 1}, {-99, seconds(600), 600},
	} {
		p := compile(t, eviction.Settings{Thresholds: []eviction.Threshold{soft("memory", "1Gi", time.Minute), hard("memory", "1Gi")}, MaxPodGracePeriod: tc.maximum})
		c := signals.Candidate{Pod: &signals.Pod{TerminationGracePeriod: tc.own}}
		o := signals.Observed(1, 2, epoch)
		if e := p.EvictionFor(&p.Thresholds[1], &o, c); e.Hard || e.GracePeriod != tc.want {
			t.Errorf("maximum %d, own %v: got %d s (hard %v), want %d s", tc.maximum, tc.own, e.GracePeriod, e.Hard, tc.want)
		}
		if e := p.EvictionFor(&p.Thresholds[0], &o, c); !e.Hard || e.GracePeriod != 1 {
			t.Errorf("grace period of a hard eviction is %d s, want 1 s", e.GracePeriod)
		}
	}
}

// podWithContainers returns the pod of the message tables, with two containers and an init
// container.
func podWithContainers() signals.Candidate {
	fs := func(n int64) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(n << 20))}
	}
	return signals.Candidate{
		Pod: &signals.Pod{Name: "web", Namespace: "default", UID: "u", Containers: []signals.Container{
			{Name: "app", MemoryRequest: quantity("100Mi"), StorageRequest: quantity("1G")},
			{Name: "log", MemoryRequest: quantity("1Gi")},
			{Name: "fetch", Init: true},
		}},
		Usage: &signals.Usage{
			Memory: signals.Of(signals.Bytes(700 << 20)),
			Containers: []signals.ContainerUsage{
				{Name: "fetch", Memory: signals.Of(signals.Bytes(1)), Rootfs: fs(1)},
				{Name: "log", Memory: signals.Of(signals.Bytes(300 << 20)), Rootfs: fs(1), Logs: fs(9)},
				{Name: "app", Memory: signals.Of(signals.Bytes(400 << 20)), Rootfs: fs(1000), Logs: fs(24)},
			},
		},
	}
}

func TestEvictionFor_Message(t *testing.T) {
	for _, tc := range []struct {
		about                   string
		threshold               eviction.Threshold
		available, capacity     signals.Amount
		change                  func(*signals.Candidate)
		message                 string
		containers, usages, pod string
	}{
		{about: "containers above their requests, in spec order", threshold: hard("memory", "1024Mi"), available: 90 << 20,
			message: "The node was low on resource: memory. Threshold quantity: 1Gi, available: 90Mi. " +
				"Container app was using 400Mi, request is 100Mi, has larger consumption of memory. " +
				"Container fetch was using 1, request is 0, has larger consumption of memory. ",
			containers: "app,fetch", usages: "400Mi,1"},
		{about: "pod-level request", threshold: hard("allocatable", "1G"), available: 1000,
			change: func(c *signals.Candidate) {
				q := quantity("2Gi")
				c.Pod.PodLevelMemoryRequest = &q
				c.Pod.Containers = c.Pod.Containers[1:2]
			},
			message: "The node was low on resource: memory. Threshold quantity: 1G, available: 1k. " +
				"Pod web was using 700Mi, request is 2Gi, has larger consumption of memory. ",
			pod: "web 700Mi"},
		{about: "pod-level request, unmeasured pod", threshold: hard("memory", "1G"), available: 1,
			change: func(c *signals.Candidate) {
				q := quantity("2Gi")
				c.Pod.PodLevelMemoryRequest = &q
				c.Usage.Memory = signals.Measured[signals.Bytes]{}
				c.Usage.Containers = nil
			},
			message: "The node was low on resource: memory. Threshold quantity: 1G, available: 1. "},
		{about: "storage with layers and logs", threshold: hard("nodefs", "10%"), available: 5 << 30, capacity: 100 << 30,
			message: "The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: 5Gi. " +
				"Container app was using 1Gi, request is 1G, has larger consumption of ephemeral-storage. " +
				"Container log was using 10Mi, request is 0, has larger consumption of ephemeral-storage. ",
			containers: "app,log", usages: "1Gi,10Mi"},
		{about: "usage equal to the request", threshold: hard("memory", "1Gi"), available: 0,
			change: func(c *signals.Candidate) {
				c.Pod.Containers = c.Pod.Containers[:1]
				c.Usage.Containers[2].Memory = signals.Of(signals.Bytes(100 << 20))
			},
			message: "The node was low on resource: memory. Threshold quantity: 1Gi, available: 0. "},
		{about: "inodes, without requests", threshold: hard("inodes", "5%"), available: 1000, capacity: 2_048_000,
			message: "The node was low on resource: inodes. Threshold quantity: 100Ki, available: 1k. "},
		{about: "PIDs, without requests", threshold: hard("pids", "2000"), available: 1024,
			message: "The node was low on resource: pids. Threshold quantity: 2k, available: 1024. "},
	} {
		t.Run(tc.about, func(t *testing.T) {
			c := podWithContainers()
			if tc.change != nil {
				tc.change(&c)
			}
			p := compile(t, thresholds(tc.threshold))
			o := signals.Observed(tc.available, tc.capacity, epoch)
			e := p.EvictionFor(&p.Thresholds[0], &o, c)
			if e.Message != tc.message {
				t.Errorf("message\n%q, want\n%q", e.Message, tc.message)
			}
			if cause, isLimit := eviction.CauseOf(e.Message); isLimit || cause != tc.threshold.Signal.Definition().Resource {
				t.Errorf("the cause of %q is %q, of a limit %t", e.Message, cause, isLimit)
			}
			want := map[string]string{"offending_containers": tc.containers, "offending_containers_usage": tc.usages,
				"starved_resource": string(tc.threshold.Signal.Definition().Resource)}
			if name, usage, ok := strings.Cut(tc.pod, " "); ok {
				want["offending_pod"], want["offending_pod_usage"] = name, usage
			}
			if !maps.Equal(e.Annotations, want) {
				t.Errorf("annotations %v, want %v", e.Annotations, want)
			}
			if !e.DisruptionTarget || e.Cause != tc.threshold.Signal.String() || e.Pod != c.Pod {
				t.Errorf("eviction %+v", e)
			}
		})
	}
}

func TestEvictionFor_MessageWithoutStats(t *testing.T) {
	p := compile(t, thresholds(hard("memory", "100Mi")))
	o := signals.Observed(90<<20, 4<<30, epoch)
	e := p.EvictionFor(&p.Thresholds[0], &o, signals.Candidate{Pod: podWithContainers().Pod})
	if e.Message != "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. " || e.Annotations == nil || len(e.Annotations) != 0 {
		t.Errorf("%+v", e)
	}
}

// Departure 3: the threshold acted for, not another one with the same resource.
func TestEvictionFor_MessageNamesTarget(t *testing.T) {
	p := compile(t, eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "100Mi"), hard("allocatable", "200Mi")}})
	o := signals.Observed(150<<20, 4<<30, epoch)
	e := p.EvictionFor(&p.Thresholds[1], &o, signals.Candidate{Pod: &signals.Pod{}})
	if !strings.Contains(e.Message, "Threshold quantity: 200Mi, available: 150Mi. ") {
		t.Errorf("message %q", e.Message)
	}
}

// limited returns a pod with every kind of limit, at or below all of them.
func limited() signals.Candidate {
	total := quantity("3Gi")
	fs := func(n int64) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(n << 20))}
	}
	return signals.Candidate{
		Pod: &signals.Pod{Name: "p", UID: "u", StorageLimit: &total,
			Containers: []signals.Container{
				{Name: "a", StorageLimit: quantity("1Gi")}, {Name: "b", StorageLimit: quantity("2G")}, {Name: "free"},
				{Name: "init", Init: true, StorageLimit: quantity("1Mi")}},
			Volumes: []signals.Volume{{Name: "unlimited", Local: true}, {Name: "tmp", SizeLimit: quantity("512Mi")}, {Name: "disk", Local: true, SizeLimit: quantity("500M")}}},
		Usage: &signals.Usage{EphemeralStorage: signals.Of(signals.Bytes(3 << 30)),
			Containers: []signals.ContainerUsage{{Name: "a", Rootfs: fs(1000), Logs: fs(24)}, {Name: "b"}, {Name: "free", Rootfs: fs(9000)}, {Name: "init", Logs: fs(500)}},
			Volumes:    []signals.VolumeUsage{{Name: "unlimited", FilesystemUsage: fs(9000)}, {Name: "tmp", FilesystemUsage: fs(512)}}},
	}
}

func TestViolations_LocalStorageLimits(t *testing.T) {
	for _, tc := range []struct {
		about  string
		layout signals.Layout
		change func(*signals.Candidate)
		cause  string
		text   string
	}{
		{about: "usage equal to every limit"},
		{about: "emptyDir in memory", change: func(c *signals.Candidate) { c.Usage.Volumes[1].Bytes.Value++ },
			cause: eviction.EmptyDirStorageLimit, text: `Usage of EmptyDir volume "tmp" exceeds the limit "512Mi". `},
		{about: "first volume in spec order", change: func(c *signals.Candidate) {
			c.Usage.Volumes = append([]signals.VolumeUsage{{Name: "disk", FilesystemUsage: signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(1 << 30))}}}, c.Usage.Volumes...)
		}, cause: eviction.EmptyDirStorageLimit, text: `Usage of EmptyDir volume "disk" exceeds the limit "500M". `},
		{about: "whole pod", change: func(c *signals.Candidate) { c.Usage.EphemeralStorage.Value++ },
			cause: eviction.PodStorageLimit, text: "Pod ephemeral local storage usage exceeds the total limit of containers 3Gi. "},
		{about: "pod before its containers", change: func(c *signals.Candidate) {
			c.Usage.EphemeralStorage.Value++
			c.Usage.Containers[0].Logs.Bytes.Value++
		}, cause: eviction.PodStorageLimit, text: "Pod ephemeral local storage usage exceeds the total limit of containers 3Gi. "},
		{about: "layers and logs of a container", change: func(c *signals.Candidate) { c.Usage.Containers[0].Logs.Bytes.Value++ },
			cause: eviction.ContainerStorageLimit, text: `Container a exceeded its local ephemeral storage limit "1Gi". `},
		{about: "dedicated images: layers do not count", layout: signals.Dedicated, change: func(c *signals.Candidate) { c.Usage.Containers[0].Rootfs.Bytes.Value <<= 4 }},
		{about: "split images: layers do not count", layout: signals.Split, change: func(c *signals.Candidate) { c.Usage.Containers[0].Rootfs.Bytes.Value <<= 4 }},
		{about: "dedicated images: logs alone", layout: signals.Dedicated, change: func(c *signals.Candidate) { c.Usage.Containers[0].Logs.Bytes.Value = 1<<30 + 1 },
			cause: eviction.ContainerStorageLimit, text: `Container a exceeded its local ephemeral storage limit "1Gi". `},
		{about: "unmeasured usage counts 0", change: func(c *signals.Candidate) { c.Usage.EphemeralStorage = signals.Measured[signals.Bytes]{} }},
		{about: "limit of 0 for the pod", change: func(c *signals.Candidate) {
			c.Pod.StorageLimit = &signals.Quantity{Text: "0"}
			c.Usage.EphemeralStorage = signals.Of(signals.Bytes(1))
		}, cause: eviction.PodStorageLimit, text: "Pod ephemeral local storage usage exceeds the total limit of containers 0. "},
		{about: "pod without stats", change: func(c *signals.Candidate) { c.Usage = nil }},
		{about: "static pod", change: func(c *signals.Candidate) { c.Usage.EphemeralStorage.Value++; c.Pod.Protection = signals.Static }},
	} {
		t.Run(tc.about, func(t *testing.T) {
			c := limited()
			if tc.change != nil {
				tc.change(&c)
			}
			p := compile(t, eviction.Settings{Layout: tc.layout, StorageLimits: true})
			found := p.Violations([]signals.Candidate{c})
			if tc.cause == "" {
				if len(found) != 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			e := found[0]
			if cause, isLimit := eviction.CauseOf(e.Message); !isLimit || cause != "" {
				t.Errorf("the cause of %q is %q, of a limit %t", e.Message, cause, isLimit)
			}
			if e.Cause != tc.cause || e.Message != tc.text || !strings.Contains(e.Explanation, "a local-storage limit of its own") || e.GracePeriod != 1 || e.DisruptionTarget || e.Annotations == nil || len(e.Annotations) != 0 {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestCauseOf_OtherMessages(t *testing.T) {
	for _, message := range []string{"", "memory", "The node was low on resource: ", "The node was low on resource: cpu. ", "The node was low on resource: [MemoryPressure]. ", "Container app", " exceeded its local ephemeral storage limit "} {
		if cause, isLimit := eviction.CauseOf(message); cause != "" || isLimit {
			t.Errorf("the cause of %q is %q, of a limit %t", message, cause, isLimit)
		}
	}
}

// Departure 1: in the order of UIDs, and only if enabled.
func TestViolations_OrderedByUID(t *testing.T) {
	var pods []signals.Candidate
	for _, uid := range []string{"c", "a", "b"} {
		c := limited()
		pod := *c.Pod
		pod.UID = uid
		c.Pod = &pod
		c.Usage.EphemeralStorage.Value++
		pods = append(pods, c)
	}
	var order []string
	for _, e := range compile(t, eviction.Settings{}).Violations(pods) {
		order = append(order, e.Pod.UID)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	check := func(s eviction.Settings, k signals.Kind) bool {
		return eviction.New(compile(t, s)).Evaluate(&signals.Snapshot{At: epoch, Kind: k}).CheckStorageLimits
	}
	if !check(eviction.Settings{StorageLimits: true}, signals.Periodic) || check(eviction.Settings{}, signals.Periodic) {
		t.Error("a periodic check must check limits with StorageLimits, and only then")
	}
	if check(eviction.Settings{StorageLimits: true}, signals.Early) {
		t.Error("an early check must not check limits")
	}
}

func TestExplain_NamesAmounts(t *testing.T) {
	policy := compile(t, thresholds(hard("memory", "100Mi"), soft("nodefs", "1Gi", time.Minute)))
	for _, tc := range []struct{ before, check, want string }{
		{"", "0s memory=1Gi nodefs=5Gi", "nothing met"},
		{"", "0s memory=90Mi nodefs=5Gi", "memory.available<100Mi: met, available 90Mi"},
		{"0s memory=1Gi nodefs=900Mi", "20s memory=1Gi nodefs=900Mi", "nodefs.available<1Gi for 1m0s: in grace period, available 900Mi, met for 20s of 1m0s"},
		{"0s memory=90Mi@0s nodefs=5Gi", "10s memory=90Mi@0s nodefs=5Gi", "memory.available<100Mi: no new sample, available 90Mi"},
		{"0s memory=91Mi nodefs=5Gi", "10s! memory=90Mi", "memory.available<100Mi: crossed, exhaustion not imminent, available 90Mi, exhausted in 15m0s at the present rate"},
		{"0s memory=90Mi nodefs=5Gi", "10s! memory=91Mi", "memory.available<100Mi: crossed, exhaustion not imminent, available 91Mi, not falling"},
	} {
		runner := &runner{policy: policy, machine: eviction.New(policy)}
		for _, line := range []string{tc.before, tc.check} {
			if line == "" {
				continue
			}
			if _, err := runner.check(strings.Fields(line + " containerfs=5Gi")); err != nil {
				t.Fatal(err)
			}
		}
		if got := runner.machine.Explain(&runner.verdict, runner.snapshot); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.check, got, tc.want)
		}
	}
}
