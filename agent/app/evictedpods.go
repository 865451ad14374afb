package app

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// maxEvicted bounds the number of evicted pods that are known.
const maxEvicted = 1000

// evictedPods are the pods that this agent has evicted, by UID. The API server may list them
// as running for longer than the time to the next check. The zero value is empty, and reports no addition.
type evictedPods struct {
	mu    sync.Mutex // a soft eviction ends beside the loop
	pods  map[string]evictedPod
	added chan struct{} // one slot; nil: no reader
}

// evictedPod is a pod at its eviction.
type evictedPod struct {
	target     kill.Target
	containers []string // the runtime's IDs
	at         time.Time
}

func (e *evictedPods) add(t kill.Target, containers []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil || len(e.pods) >= maxEvicted {
		e.pods = map[string]evictedPod{}
	}
	e.pods[t.UID] = evictedPod{t, containers, time.Now()}
	fill(e.added)
}

func (e *evictedPods) get(uid string) (p evictedPod, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, found = e.pods[uid]
	return p, found
}

// since returns the pods that were evicted after a time.
func (e *evictedPods) since(at time.Time) (recent []evictedPod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pods {
		if p.at.After(at) {
			recent = append(recent, p)
		}
	}
	return recent
}

const (
	// restartTime is the time after an eviction in which its kubelet may start a container without knowledge of the
	// status. A kubelet with syncFrequency 1m synchronises each pod once in 90 s.
	restartTime = 3 * time.Minute
	// restartPeriod is the interval between searches for such containers.
	restartPeriod = 500 * time.Millisecond
	// restartKillTime bounds the wait for the processes of such a container.
	restartKillTime = 2 * time.Second
)

// A restartEnder ends the containers that a kubelet starts in an evicted pod.
//
// A kubelet (1.37) that observes the death of a container before the status of the pod starts the container again. The
// status alone does not make it end the pod then: it waits for the next synchronisation, which is up to 90 s later, or
// follows the death of a container. The agent would rank only other pods meanwhile, since a Failed pod is no candidate.
// Without an admission policy the kubelet may also write Running over the status: such a pod is active again, and stays.
type restartEnder struct {
	evicted *evictedPods
	find    func(uid string) (cgroup.Pod, error)
	ended   func(uid string) bool // according to the API server
	mayAct  func() error
	kill    func(context.Context, kill.Target) (kill.Result, error)
	log     *slog.Logger

	failed map[string]bool // pods with a failure in the log
}

// newRestartEnder returns one for the pods of an API server.
func newRestartEnder(n *node, pods *apiPods) *restartEnder {
	return &restartEnder{
		evicted: &n.evicted,
		find: func(uid string) (cgroup.Pod, error) {
			tree, err := n.places.Open()
			if err != nil {
				return cgroup.Pod{}, err
			}
			return tree.Find(uid)
		},
		ended: func(uid string) bool {
			s := pods.State(uid)
			return s == client.Evicted || s == client.Ended
		},
		mayAct: n.arming.mayAct,
		kill: func(ctx context.Context, t kill.Target) (kill.Result, error) {
			own, err := kill.New(n.hierarchy) // n.killer belongs to the loop
			if err != nil {
				return kill.Result{}, err
			}
			defer own.Close()
			ctx, cancel := context.WithTimeout(ctx, restartKillTime)
			defer cancel()
			return own.Immediate(ctx, t)
		},
		log: n.log, failed: map[string]bool{},
	}
}

// run searches after each eviction, until ctx ends.
func (r *restartEnder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.evicted.added:
		}
		repeat(ctx, restartPeriod, func() (more bool) {
			recent := r.evicted.since(time.Now().Add(-restartTime))
			for i := range recent {
				r.end(ctx, &recent[i])
			}
			return len(recent) > 0
		})
		clear(r.failed)
	}
}

// end ends the containers that have begun in a pod since its eviction, if the API server has the pod as ended.
func (r *restartEnder) end(ctx context.Context, p *evictedPod) {
	uid := p.target.UID
	if !r.ended(uid) {
		return
	}
	now, err := r.find(uid)
	if err != nil { // usually gone with its cgroup
		return
	}
	t := kill.Target{UID: uid, Path: now.Path, Inode: now.Inode, Exempt: slices.Clone(p.target.Exempt)}
	var started []string
	for _, c := range now.Containers {
		switch base := path.Base(c.Path); {
		case c.IsMonitor():
			t.Exempt = append(t.Exempt, base)
		case !slices.Contains(p.containers, c.Name) && !slices.Contains(p.target.Exempt, base):
			started = append(started, c.Name)
		}
	}
	if len(started) == 0 || r.mayAct() != nil {
		return
	}
	killed, err := r.kill(ctx, t)
	about := []any{"uid", uid, "containers", started, "processes", killed.Signalled}
	switch {
	case killed.Signalled > 0:
		r.log.Warn("Killed the containers that the kubelet had started in an evicted pod", about...)
	case err != nil && !errors.Is(err, kill.ErrGone) && !r.failed[uid]:
		r.failed[uid] = true
		r.log.Error("Failed to kill the containers that the kubelet has started in an evicted pod, retrying", append(about, "error", err)...)
	}
}
