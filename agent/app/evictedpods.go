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
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// maxEvicted bounds the number of evicted pods that are known.
const maxEvicted = 1000

// evictedPods are the pods that this agent has evicted, by UID. The API server may list them
// as running for longer than the time to the next check. The zero value is empty, and reports no addition.
type evictedPods struct {
	mu      sync.Mutex // a soft eviction ends beside the loop
	targets map[string]kill.Target
	added   chan evictedPod // nil: no reader
}

// evictedPod is a pod at its eviction.
type evictedPod struct {
	namespace, name string
	target          kill.Target
	containers      []string // the runtime's IDs
}

// add does not wait: without a reader, or with a slow one, the addition is not reported.
func (e *evictedPods) add(p evictedPod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.targets == nil || len(e.targets) >= maxEvicted {
		e.targets = map[string]kill.Target{}
	}
	e.targets[p.target.UID] = p.target
	select {
	case e.added <- p:
	default:
	}
}

func (e *evictedPods) target(uid string) (t kill.Target, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, found = e.targets[uid]
	return t, found
}

const (
	// restartTime is the time after an eviction, or after the last kill of a restartEnder, in which its kubelet may start a
	// container without knowledge of the status. A kubelet without a connection pauses at most 5 minutes between two starts,
	// and synchronises each pod within 90 s (syncFrequency 1m).
	restartTime = 8 * time.Minute
	// restartPeriod is the interval between searches for such containers.
	restartPeriod = 500 * time.Millisecond
	// restartKillTime bounds the wait for the processes of a container. The kill continues, and the next search joins it.
	restartKillTime = 100 * time.Millisecond
	// restartReadTime bounds a read of the pod.
	restartReadTime = time.Second
	// evictedSlots is the number of evictions between two searches.
	evictedSlots = 64
)

// A restartEnder ends the containers that a kubelet starts in an evicted pod.
//
// A kubelet (1.37) may observe the death of a container before the status of its pod. It then starts the container again. The
// status alone does not make the kubelet end the pod. It does so at its next synchronisation, up to 90 s later, or at the
// death of a container. Meanwhile the agent would rank only other pods, since a Failed pod is no candidate.
//
// Without an admission policy the kubelet may also write Running over the status: such a pod is active again, and stays.
// So the pod is read before a kill: a watch may be late.
type restartEnder struct {
	added     <-chan evictedPod
	ended     func(uid string) bool // according to the watch
	find      func(uid string) (cgroup.Pod, error)
	continues func(kill.Target) bool // the loop's kill goes on
	mayAct    func() error
	read      func(context.Context, *evictedPod) (ended bool, err error)
	killer    func() (podKiller, error)
	killed    func(uid string, containers []string)
	log       *slog.Logger

	pods map[string]*evictedBefore
	own  podKiller // nil before the first kill
}

// podKiller is a [kill.Killer].
type podKiller interface {
	Ended(kill.Target) bool
	Immediate(context.Context, kill.Target) (kill.Result, error)
	Close() error
}

// evictedBefore is a pod that is searched for new containers.
type evictedBefore struct {
	evictedPod
	until  time.Time
	killed []string // containers of the last kill
	failed bool     // the log has an error since then
}

// newRestartEnder returns one for the pods of an API server.
func newRestartEnder(n *node, pods *apiPods, reporter *podstatus.Reporter) *restartEnder {
	return &restartEnder{
		added: n.evicted.added,
		ended: func(uid string) bool {
			s := pods.State(uid)
			return s == client.Evicted || s == client.Ended
		},
		find: func(uid string) (cgroup.Pod, error) {
			tree, err := n.places.Open()
			if err != nil {
				return cgroup.Pod{}, err
			}
			return tree.Find(uid)
		},
		continues: n.killer.Continues,
		mayAct:    n.arming.mayAct,
		read: func(ctx context.Context, p *evictedPod) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, restartReadTime)
			defer cancel()
			return reporter.HasEnded(ctx, p.namespace, p.name, p.target.UID)
		},
		killer: func() (podKiller, error) { return kill.New(n.hierarchy) }, // n.killer belongs to the loop
		killed: reporter.AlsoKilled,
		log:    n.log, pods: map[string]*evictedBefore{},
	}
}

// run searches after each eviction, until ctx ends.
func (r *restartEnder) run(ctx context.Context) {
	defer r.close()
	for {
		var due <-chan time.Time // never
		if len(r.pods) > 0 {
			due = time.After(restartPeriod)
		}
		select {
		case <-ctx.Done():
			return
		case p := <-r.added:
			r.pods[p.target.UID] = &evictedBefore{evictedPod: p, until: time.Now().Add(restartTime)}
			continue
		case <-due:
		}
		for uid, p := range r.pods {
			if r.end(ctx, p); time.Now().After(p.until) {
				delete(r.pods, uid)
			}
		}
		if len(r.pods) == 0 {
			r.close()
		}
	}
}

// close gives the killer's memory back.
func (r *restartEnder) close() {
	if r.own != nil {
		_ = r.own.Close()
		r.own = nil
	}
}

// end ends the containers that have begun in a pod since its eviction, if the API server has the pod as ended.
func (r *restartEnder) end(ctx context.Context, p *evictedBefore) {
	uid := p.target.UID
	if !r.ended(uid) {
		return
	}
	now, err := r.find(uid)
	if err != nil {
		if !cgroup.IsGone(err) {
			r.fail(p, err)
		}
		return
	}
	t, started := p.startedIn(&now)
	if len(started) == 0 || r.mayAct() != nil || r.continues(p.target) {
		return
	}
	if r.own == nil {
		if r.own, err = r.killer(); err != nil {
			r.own = nil
			r.fail(p, err)
			return
		}
	}
	if r.own.Ended(t) { // a runtime removes the directory of a dead container late
		return
	}
	if ended, err := r.read(ctx, &p.evictedPod); err != nil || !ended {
		r.fail(p, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restartKillTime)
	defer cancel()
	result, err := r.own.Immediate(ctx, t)
	switch {
	case result.Signalled > 0: // a large process may take longer to exit
		if !slices.ContainsFunc(started, func(name string) bool { return !slices.Contains(p.killed, name) }) {
			return
		}
		p.killed, p.until, p.failed = started, time.Now().Add(restartTime), false
		r.killed(uid, started)
		r.log.Warn("Killed the containers that the kubelet had started in an evicted pod", "pod", p.namespace+"/"+p.name, "uid", uid, "containers", started, "processes", result.Signalled)
	case !errors.Is(err, kill.ErrGone) && !errors.Is(err, kill.ErrChanged):
		r.fail(p, err)
	}
}

// startedIn returns the target of a kill, and the containers that have begun since the eviction.
func (p *evictedPod) startedIn(now *cgroup.Pod) (t kill.Target, started []string) {
	t = kill.Target{UID: now.UID, Path: now.Path, Inode: now.Inode, Exempt: slices.Clone(p.target.Exempt)}
	for _, c := range now.Containers {
		switch base := path.Base(c.Path); {
		case c.IsMonitor():
			t.Exempt = append(t.Exempt, base)
		case !slices.Contains(p.containers, c.Name) && !slices.Contains(p.target.Exempt, base):
			started = append(started, c.Name)
		}
	}
	return t, started
}

// fail logs the first of several errors. The next search tries again.
func (r *restartEnder) fail(p *evictedBefore, err error) {
	if err != nil && !p.failed {
		p.failed = true
		r.log.Error("Cannot end the containers that the kubelet has started in an evicted pod yet, retrying", "pod", p.namespace+"/"+p.name, "uid", p.target.UID, "error", err)
	}
}
