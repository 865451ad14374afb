package stats

import (
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// A Runtime tells what its pods and containers use; [cri.Client] does.
type Runtime interface {
	PodStats(context.Context) ([]cri.PodStats, error)
	ContainerStats(context.Context) ([]cri.ContainerStats, error)
}

// CRI measures pods by what the container runtime says of them. It asks every
// period, and when a measurement is prepared or made; measurements use the last
// answer, which is usually one period old at most. Containers have their names.
//
// Of a runtime that tells nothing of pods, or of a pod's memory, what the
// containers use is summed up: without what only the pod's cgroup is charged
// for, such as the sandbox's own process, and without processes.
type CRI struct{ *sampler }

// OpenCRI begins to ask the runtime, which its owner closes afterwards. It does
// not wait.
func OpenCRI(runtime Runtime, o Sampling) *CRI {
	return &CRI{startSampler(o, func(ctx context.Context) (map[string]signals.Usage, error) {
		return askRuntime(ctx, runtime)
	})}
}

func askRuntime(ctx context.Context, runtime Runtime) (map[string]signals.Usage, error) {
	pods, err := runtime.PodStats(ctx)
	if err == nil || errors.Is(err, cri.ErrAbsurd) {
		return usagesOfPods(pods), err
	}
	containers, otherErr := runtime.ContainerStats(ctx)
	if errors.Is(err, cri.ErrUnimplemented) {
		err = otherErr
	}
	if otherErr != nil && !errors.Is(otherErr, cri.ErrAbsurd) {
		return nil, err
	}
	return usagesOfContainers(containers), err
}

// usagesOfPods takes the later of two sandboxes of a pod: one that has been
// replaced may still be told of.
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

// sumOf is what containers use together, as of the oldest of their samples. It
// is known if it is of each of those that run: what has ended has no sample and
// uses nothing. No container is no sum.
func sumOf(containers []cri.ContainerStats) signals.Usage {
	var u signals.Usage
	whole := true
	for i := range containers {
		c := &containers[i]
		if c.Time.IsZero() && !c.WorkingSet.Known {
			continue
		}
		u.Containers = append(u.Containers, signals.ContainerUsage{Name: c.Name, Memory: bytesOf(c.WorkingSet)})
		u.Memory.Value += signals.Bytes(c.WorkingSet.Value)
		u.Time = oldest(u.Time, c.Time)
		whole = whole && c.WorkingSet.Known
	}
	u.Memory.Known = whole && len(u.Containers) > 0
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
