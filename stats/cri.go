package stats

import (
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// Runtime returns the usage of pods and containers; [cri.Client] implements it.
type Runtime interface {
	PodStats(context.Context) ([]cri.PodStats, error)
	ContainerStats(context.Context) ([]cri.ContainerStats, error)
}

// CRI measures pods with the statistics of the container runtime. It samples every period, and
// when a measurement is prepared or made. Measurements use the last sample, usually at most one
// period old. Containers have their names.
//
// If a runtime reports nothing about pods, or not the memory of a pod, the usage of its
// containers is added up. That sum lacks charges of the pod's cgroup alone, such as the sandbox
// process, and the number of processes.
type CRI struct{ *sampler }

// OpenCRI starts sampling the runtime and does not wait. The caller closes the runtime after
// the CRI.
func OpenCRI(runtime Runtime, o Sampling) *CRI {
	return &CRI{startSampler(o, func(ctx context.Context) (map[string]signals.Usage, error) {
		return queryRuntime(ctx, runtime)
	})}
}

func queryRuntime(ctx context.Context, runtime Runtime) (map[string]signals.Usage, error) {
	pods, err := runtime.PodStats(ctx)
	if err == nil || errors.Is(err, cri.ErrImplausible) {
		return usagesOfPods(pods), err
	}
	containers, otherErr := runtime.ContainerStats(ctx)
	if errors.Is(err, cri.ErrUnimplemented) {
		err = otherErr
	}
	if otherErr != nil && !errors.Is(otherErr, cri.ErrImplausible) {
		return nil, err
	}
	return usagesOfContainers(containers), err
}

// usagesOfPods uses the later of two sandboxes of a pod, because a runtime may still report a
// replaced one.
func usagesOfPods(pods []cri.PodStats) map[string]signals.Usage {
	usages := make(map[string]signals.Usage, len(pods))
	for i := range pods {
		s := &pods[i]
		u := sumOf(s.Containers)
		if s.WorkingSet.Known {
			u.Memory, u.Time = bytesOf(s.WorkingSet), s.Time
		}
		u.Processes = signals.Measured[signals.PIDs]{Value: signals.PIDs(s.Processes.Value), Known: s.Processes.Known}
		if other, twice := usages[s.UID]; !twice || other.Time.Before(u.Time) {
			usages[s.UID] = u
		}
	}
	return usages
}

func usagesOfContainers(containers []cri.ContainerStats) map[string]signals.Usage {
	of := map[string][]cri.ContainerStats{}
	for _, c := range containers {
		if c.PodUID != "" {
			of[c.PodUID] = append(of[c.PodUID], c)
		}
	}
	usages := make(map[string]signals.Usage, len(of))
	for uid, list := range of {
		usages[uid] = sumOf(list)
	}
	return usages
}

// sumOf adds up the usage of containers, with the time of the oldest sample. The sum is known
// if the usage of every running container is: an ended one has no sample and uses nothing.
// Without containers it is unknown.
func sumOf(containers []cri.ContainerStats) signals.Usage {
	var u signals.Usage
	complete := true
	for i := range containers {
		c := &containers[i]
		if c.Time.IsZero() && !c.WorkingSet.Known {
			continue
		}
		u.Containers = append(u.Containers, signals.ContainerUsage{Name: c.Name, Memory: bytesOf(c.WorkingSet)})
		u.Memory.Value += signals.Bytes(c.WorkingSet.Value)
		u.Time = oldest(u.Time, c.Time)
		complete = complete && c.WorkingSet.Known
	}
	u.Memory.Known = complete && len(u.Containers) > 0
	if !u.Memory.Known {
		u.Memory.Value = 0
	}
	return u
}

func oldest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func bytesOf(u cri.Used) signals.Measured[signals.Bytes] {
	return signals.Measured[signals.Bytes]{Value: signals.Bytes(u.Value), Known: u.Known}
}
