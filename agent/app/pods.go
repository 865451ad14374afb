package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kube/runtimepods"
)

// A podSource returns the node's active pods, which must not be changed. It does not wait.
type podSource interface {
	pods() []signals.Pod
	// fault returns why pods may be missing; nil if none are.
	fault() error
}

// apiPods are the pods of the API server. Until it has answered, the pods of the state file
// count; without a state file, those that the runtime lists.
type apiPods struct {
	*client.Pods
	choices         *agentpods.Choices
	saved           bool                   // pods were loaded from the state file
	onChange        atomic.Pointer[func()] // besides, when pods have changed
	onSandboxChange atomic.Pointer[func()] // likewise
	fromRuntime     atomic.Pointer[[]signals.Pod]
}

// podsSection is the section of the state file with the last known pods.
const podsSection = "pods"

func watchPods(ctx context.Context, c *client.Connection, choices *agentpods.Choices, saved *checkpoint.Sections, log *slog.Logger) *apiPods {
	var known []signals.Pod
	if saved != nil {
		if err := saved.Load(podsSection, &known); err != nil {
			log.Error("Cannot use the saved pods", "error", err)
			known = nil
		}
	}
	a := &apiPods{choices: choices, saved: len(known) > 0}
	ready := make(chan struct{})
	a.Pods = client.WatchPods(ctx, c, known, func() {
		<-ready
		if saved != nil {
			saved.Save(podsSection, podsToSave(a.Active()))
		}
		for _, handler := range []*func(){a.onChange.Load(), a.onSandboxChange.Load()} {
			if handler != nil {
				(*handler)()
			}
		}
	})
	close(ready)
	return a
}

// Bounds of the pods in the state file, of which 8 MiB are read at a start: about
// 4 MiB. A part is a pod, a container or a volume.
const (
	maxSavedParts  = 15_000
	maxPartsOfAPod = 100
)

// podsToSave returns the pods for the state file. A pod of very many containers and volumes
// is saved without them, so that it leaves room for all other pods. Pods that do not fit
// are known again once the API server answers.
func podsToSave(active []signals.Pod) []signals.Pod {
	saved, parts := make([]signals.Pod, 0, len(active)), 0
	for _, pod := range active {
		own := len(pod.Containers) + len(pod.Volumes) + hostPathParts(pod.HostPaths)
		if own > maxPartsOfAPod {
			pod.Containers, pod.Volumes, pod.HostPaths, own = nil, nil, nil, 0
		}
		if parts += 1 + own; parts > maxSavedParts {
			break
		}
		saved = append(saved, pod)
	}
	return saved
}

// hostPathParts returns the size of long paths in parts of about 250 bytes. JSON may need six for
// each byte.
func hostPathParts(paths []string) (parts int) {
	for _, path := range paths {
		parts += 6 * len(path) / 250
	}
	return parts
}

func (a *apiPods) pods() []signals.Pod {
	if !a.Synced() && !a.saved {
		if named := a.fromRuntime.Load(); named != nil {
			return *named
		}
	}
	return a.Active()
}

func (a *apiPods) fault() error {
	if a.known() {
		return nil
	}
	return cmp.Or(a.Err(), errNotListed)
}

// known reports whether any source has listed the pods.
func (a *apiPods) known() bool { return a.Synced() || a.saved || a.fromRuntime.Load() != nil }

// await waits for the API server's list. Until ctx ends, or a request fails, other pods do not suffice: by
// those of the state file a container may run that has ended, and those of the runtime have no priority.
// Returns the fault if none are known then.
func (a *apiPods) await(ctx context.Context) error {
	repeat(ctx, listPoll, func() bool { return !a.Synced() && (a.Err() == nil || !a.known()) })
	return a.fault()
}

// listPoll is the interval between looks at whether the pods are listed.
const listPoll = 50 * time.Millisecond

// hostImages waits for the API server's list of pods and returns the images of those with
// access to the node. Returns an error if ctx ends before.
func (a *apiPods) hostImages(ctx context.Context) ([]string, error) {
	repeat(ctx, listPoll, func() bool { return !a.Synced() })
	if !a.Synced() {
		return nil, cmp.Or(a.Err(), errNotListed)
	}
	return a.HostImages(), nil
}

var errNotListed = errors.New("the API server has not listed the node's pods yet")

// runtimePeriod is the interval between lists of the runtime's pods while no other source
// has any.
const runtimePeriod = 10 * time.Second

// followRuntime lists the runtime's pods until the API server has answered.
func (a *apiPods) followRuntime(ctx context.Context, client *cri.Client) {
	repeat(ctx, runtimePeriod, func() bool {
		if a.Synced() || a.saved {
			return false
		}
		if named, err := podsOfRuntime(ctx, client, a.choices); err == nil {
			a.fromRuntime.Store(&named)
		}
		return true
	})
}

func podsOfRuntime(ctx context.Context, client *cri.Client, choices *agentpods.Choices) ([]signals.Pod, error) {
	sandboxes, err := client.Sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := client.Containers(ctx)
	if err != nil {
		return nil, err
	}
	return runtimepods.Convert(sandboxes, containers, choices), nil
}

// running returns a function that lists the IDs of a pod's running containers.
func running(client *cri.Client) func(ctx context.Context, uid string) ([]string, error) {
	return func(ctx context.Context, uid string) ([]string, error) {
		containers, err := client.Containers(ctx)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, c := range containers {
			if c.PodUID == uid && c.State == cri.Running {
				ids = append(ids, c.ID)
			}
		}
		return ids, nil
	}
}

const (
	// podUIDVariable is the environment variable with the UID of the agent's own pod.
	podUIDVariable = "POD_UID"
	// ownCgroups lists the cgroups of this process.
	ownCgroups = "/proc/self/cgroup"
)

// ownPod returns the UID of the pod in which the agent runs: the given one, or the
// one that the process's cgroups name; empty if there is neither. In a cgroup
// namespace of its own a process does not see its pod's name.
func ownPod(given, cgroups string) string {
	if given = strings.TrimSpace(given); given != "" {
		return given
	}
	text, err := os.ReadFile(cgroups)
	if err != nil {
		return ""
	}
	paths, err := cgroup.ParseCgroupFile(text)
	if err != nil {
		return ""
	}
	for _, controller := range []string{"memory", ""} {
		if uid, _ := cgroup.PodAbove(paths[controller]); uid != "" {
			return uid
		}
	}
	return ""
}
