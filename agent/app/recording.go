package app

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/recorder"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/stats"
)

// A flightRecorder records checks, decisions and usage of the agent in a ring.
type flightRecorder struct {
	*recorder.Recorder
	ring  *ring.Ring
	usage *usageRecorder
	node  *node

	configOf func(*eviction.Policy) *config.Agent
	config   *config.Agent    // that is recorded
	policy   *eviction.Policy // of the last check
	log      *slog.Logger
}

// openRecorder starts to record, with the state before the first check. It returns nil if
// nothing is to be recorded.
func (a *app) openRecorder(machine *eviction.Machine, limits *limiter.Limiter) *flightRecorder {
	if a.config.RecordingDir == "" {
		return nil
	}
	c := cmp.Or(a.policies.configOf(machine.Policy()), a.config)
	header, before := a.recordingHeader(c, time.Now()), agent.Checker{Machine: machine, Limiter: limits}
	usage := &usageRecorder{pods: a.node.pods, breakdowns: stats.OpenBreakdowns(a.node.hierarchy, a.node.places), machine: stats.OpenMachineCounters(a.config.ProcRoot)}
	if a.apiPods != nil {
		usage.state, usage.object = a.apiPods.State, a.apiPods.Get
	}
	options := ring.Options{Dir: a.config.RecordingDir, Size: int64(a.config.RecordingSize), Header: header,
		State: before.State(recorder.Monotonic(header.Started)), Usage: usage.measure, Failed: a.logRecording}
	if a.apiNode != nil {
		options.Capacity = func() (capacity, allocatable map[string]string) {
			if object := a.apiNode.Object(); object != nil {
				return resources(object.Status.Capacity), resources(object.Status.Allocatable)
			}
			return nil, nil
		}
	}
	r := &flightRecorder{ring: ring.Start(options), usage: usage, node: a.node, configOf: a.policies.configOf, config: c, policy: machine.Policy(), log: a.log}
	r.Recorder = recorder.New(r.ring, header.Started)
	a.ring.Store(r.ring)
	a.closers = append(a.closers, r.close)
	return r
}

// recordingHeader describes this run of the agent. What can not be found out is left out.
func (a *app) recordingHeader(c *config.Agent, started time.Time) recording.Header {
	h := recording.Header{Version: a.Version, Revision: a.Revision, CgroupVersion: int(a.node.hierarchy.Version), Started: started, Node: a.config.NodeName}
	if a.api != nil {
		h.Node = a.api.NodeName()
	}
	if host, err := os.Hostname(); err == nil {
		h.Node = cmp.Or(h.Node, os.Getenv("NODE_NAME"), host)
	}
	h.BootID, _ = checkpoint.BootID(a.config.ProcRoot)
	h.SinceBoot, _ = checkpoint.SystemClock().SinceBoot()
	if release, err := os.ReadFile(filepath.Join(a.config.ProcRoot, "sys/kernel/osrelease")); err == nil {
		h.Kernel = strings.TrimSpace(string(release))
	}
	var err error
	if h.Config, err = c.Effective(); err != nil {
		a.log.Error("Failed to encode the configuration for the recording, which cannot be replayed without it", "error", err)
	}
	return h
}

func (a *app) logRecording(err error) {
	if err != nil {
		a.log.Error("Failed to record, dropping values until it works again", "recordingDir", a.config.RecordingDir, "error", err)
		return
	}
	a.log.Info("Recording works again", "recordingDir", a.config.RecordingDir)
}

// recordingStats returns the number of values that were not recorded, and the size of the recording. Stored
// decisions are part of both.
func (a *app) recordingStats() (dropped, bytes int64) {
	if r := a.ring.Load(); r != nil {
		dropped, bytes = r.Dropped(), r.Bytes()
	}
	d, b := a.decisions.stats()
	return dropped + d + a.besides.lost.Load(), bytes + b
}

// Record implements agent.Recorder. With a periodic check it passes on the local storage of pods,
// which the loop has just looked up, and with the first check by another configuration that one.
func (r *flightRecorder) Record(o *agent.Outcome, c *agent.Checker) {
	if policy := c.Machine.Policy(); policy != r.policy {
		r.policy = policy
		r.reconfigure(r.configOf(policy))
	}
	if o.Snapshot.Kind == signals.Periodic {
		r.usage.noteDisks(r.node.stored)
	}
	r.Recorder.Record(o, c)
}

// reconfigure records a configuration that the loop has adopted, unless it is nil or recorded already.
func (r *flightRecorder) reconfigure(c *config.Agent) {
	if c == nil || c == r.config {
		return
	}
	text, err := c.Effective()
	if err != nil {
		r.log.Error("Failed to encode the configuration for the recording, whose replay decides by the previous one", "error", err)
		return
	}
	r.config = c
	r.Reconfigured(text)
}

func (r *flightRecorder) close() {
	if r.ring.Close() { // otherwise its goroutine may still read them
		r.usage.breakdowns.Close()
		r.usage.machine.Close()
	}
}

// A usageRecorder measures pods for the recording, beside the loop.
type usageRecorder struct {
	pods       func() []signals.Pod
	state      func(uid string) client.PodState // nil without an API server, as the next one
	object     func(uid string) (*corev1.Pod, bool)
	breakdowns *stats.Breakdowns
	machine    *stats.MachineCounters
	disks      atomic.Pointer[[]diskUsage] // as of the last periodic check
	last       []signals.Pod               // the pods of the previous usage
	reused     recording.Usage
}

type diskUsage struct {
	uid   string
	bytes int64
}

// noteDisks stores the local storage of pods. The loop calls it.
func (u *usageRecorder) noteDisks(stored []signals.Candidate) {
	disks := make([]diskUsage, 0, len(stored))
	for i := range stored {
		if usage := stored[i].Usage; usage != nil && usage.EphemeralStorage.Known {
			disks = append(disks, diskUsage{stored[i].Pod.UID, int64(usage.EphemeralStorage.Value)})
		}
	}
	u.disks.Store(&disks)
}

// measure returns the usage of the active pods. It is valid until the next call.
func (u *usageRecorder) measure() *recording.Usage {
	pods, disks := u.pods(), map[string]int64{}
	if stored := u.disks.Load(); stored != nil {
		for _, d := range *stored {
			disks[d.uid] = d.bytes
		}
	}
	into := &u.reused
	into.At, into.Pods, into.Gone = time.Now(), into.Pods[:0], u.gone(pods)
	count := u.machine.Read()
	for i, c := range [...]cgroup.Counted{recording.MemoryStallSome: count.MemoryStallSome, recording.MemoryStallFull: count.MemoryStallFull,
		recording.IOStallSome: count.IOStallSome, recording.IOStallFull: count.IOStallFull, recording.NodeOOMKills: count.OOMKills} {
		into.Node[i] = counted(c)
	}
	u.breakdowns.Read(pods, func(pod *signals.Pod, b *cgroup.Breakdown) {
		p := recording.PodUsage{Pod: pod}
		for i, c := range [...]cgroup.Counted{recording.WorkingSet: b.WorkingSet, recording.Anon: b.Anon, recording.File: b.File, recording.Shmem: b.Shmem, recording.Swap: b.Swap, recording.Kernel: b.Kernel,
			recording.Tasks: b.Tasks, recording.Disk: {}, recording.StallSome: b.StallSome, recording.StallFull: b.StallFull, recording.LimitHits: b.LimitHits, recording.OOMKills: b.OOMKills} {
			p.Values[i] = counted(c)
		}
		if disk, known := disks[pod.UID]; known {
			p.Values[recording.Disk] = disk
		}
		into.Pods = append(into.Pods, p)
	})
	u.last = pods
	return into
}

// counted returns a value in the form of a recording.
func counted(c cgroup.Counted) int64 {
	if !c.Known || c.Value > 1<<62 {
		return recording.Unknown
	}
	return int64(c.Value)
}

// gone returns the pods of the previous usage that are no longer active.
func (u *usageRecorder) gone(pods []signals.Pod) (gone []recording.Gone) {
	if len(u.last) == 0 || len(pods) > 0 && &pods[0] == &u.last[0] {
		return nil
	}
	active := make(map[string]bool, len(pods))
	for i := range pods {
		active[pods[i].UID] = true
	}
	for i := range u.last {
		if pod := &u.last[i]; !active[pod.UID] {
			gone = append(gone, recording.Gone{Pod: pod, End: u.end(pod.UID)})
		}
	}
	return gone
}

// end returns how a pod ended.
func (u *usageRecorder) end(uid string) recording.End {
	if u.state == nil {
		return recording.EndUnknown
	}
	switch u.state(uid) {
	case client.Ended:
		return recording.Ended
	case client.Evicted:
		return u.evictedFor(uid)
	case client.Gone:
		return recording.Deleted
	}
	return recording.EndUnknown
}

// evictedFor returns why a pod was evicted, by any program: the message of its status has the cause.
func (u *usageRecorder) evictedFor(uid string) recording.End {
	object, known := u.object(uid)
	if !known {
		return recording.EndEvicted
	}
	resource, isLimit := eviction.CauseOf(object.Status.Message)
	if isLimit {
		return recording.EvictedForLimit
	}
	return recording.EvictedFor(resource)
}

// resources returns a list of resources as texts.
func resources(list corev1.ResourceList) map[string]string {
	texts := make(map[string]string, len(list))
	for name, quantity := range list {
		texts[string(name)] = quantity.String()
	}
	return texts
}
