package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// Regret is a trial of many steps close to a node's limit with the agent's default
// configuration. It counts regrets: evictions that neither a check every 10 s nor the kernel
// would have caused.
//
// An eviction is classified by the plan of its step and by a sampler that reads the node every
// few milliseconds:
//
//   - In a step that continues beyond the limit no eviction is a regret: the kernel would have
//     killed.
//   - At a periodic check of the agent it is none if the sampler observed the node below the
//     threshold in that step. A check every 10 s at that moment would have found the same. It is
//     not judged if memory can have been below the threshold between two samples at that time.
//   - Any other eviction is one: an early check evicted, and memory would have recovered. This is
//     strict, because a later periodic check in the same step could have evicted too.
//   - An eviction of another pod than the hog ends the trial.
type Regret struct {
	Binary string
	Limit  int64         // of the node, in bytes, 400 MiB or more
	For    time.Duration // the current step is completed
	// Shown reports whether the rows have all required kinds of steps. After For the trial
	// continues until then, because the order of steps is random. May be nil.
	Shown   func([]*Row) bool
	MaxHold time.Duration // maximum time for which a step keeps its memory
	Seed    uint64
	Disk    bool         // also workloads with files, unless temporary files are in memory
	Brinks  bool         // also steps that no observer can distinguish from imminent exhaustion
	Args    []string     // of the agent
	Log     func(string) // called for every eviction and OOM kill; may be nil
}

// regretThreshold is the threshold, in available bytes.
const regretThreshold = 100 * mib

// atRest is the available memory between two steps, in bytes.
const atRest = 170 * mib

// stepPatience bounds a step.
const stepPatience = 3 * time.Minute

// Run returns a row for each workload in the order of their first steps, and the maximum gap of
// the sampler. Returns the rows so far and an error if ctx ends, a step fails; ErrNotJudged if most
// evictions could not be judged.
func (r Regret) Run(ctx context.Context) (rows []*Row, gap time.Duration, err error) {
	n, err := NewNode("regret", r.Limit)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	t := &regretRun{Regret: r, node: n}
	if err := t.prepare(ctx); err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, t.agent.Stop()) }()
	t.sampler = watch(n.Node, regretThreshold)
	defer t.sampler.close()
	for end := time.Now().Add(r.For); err == nil && (time.Now().Before(end) || r.Shown != nil && !r.Shown(t.rows)); {
		err = t.step(ctx)
	}
	return t.rows, t.gap, errors.Join(err, checkJudged(t.rows))
}

// regretting is a running trial.
type regretRun struct {
	Regret
	node     *Node
	resident *sandbox.Pod // of the innocent hog
	innocent *sandbox.Hog
	pods     int
	name     string // of the pod
	pod      *sandbox.Pod
	hog      *sandbox.Hog // nil after its exit
	agent    *Agent
	sampler  *sampler
	course   *course
	now      past
	before   past
	ooms     int64
	rows     []*Row
	gap      time.Duration
}

// past is a step and its observations.
type past struct {
	step  Step
	begun time.Time
	seen  Observation
}

// prepare fills the node with an innocent pod and starts the agent.
func (t *regretRun) prepare(ctx context.Context) error {
	dir, err := t.scratch()
	if err != nil {
		return err
	}
	t.course = newCourse(t.Seed, dir, t.Brinks)
	t.course.threshold, t.course.maxHold = regretThreshold, t.MaxHold
	if t.resident, err = t.node.AddPod("innocent", Requesting("100Mi")); err != nil {
		return err
	}
	if t.innocent, err = t.node.StartHog(ctx, t.resident, "app"); err != nil {
		return err
	}
	t.node.hogs = append(t.node.hogs, t.innocent)
	if _, err := t.innocent.Do(ctx, "fill 60MiB"); err != nil {
		return err
	}
	t.agent, err = t.node.Start(ctx, t.Binary, append([]string{fmt.Sprintf("--eviction-hard=memory.available<%d", regretThreshold)}, t.Args...)...)
	return err
}

// scratch returns a directory on a disk. It is empty if none is requested or the temporary
// directory is in memory, where files are not distinguishable from other memory.
func (t *regretRun) scratch() (string, error) {
	if memory, err := InMemory(t.node.Dir); err != nil || memory || !t.Disk {
		return "", err
	}
	dir := filepath.Join(t.node.Dir, "scratch")
	return dir, os.Mkdir(dir, 0o700)
}

// step executes one step of the hog and classifies the result.
func (t *regretRun) step(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	if err := t.startHog(ctx); err != nil {
		return err
	}
	room, err := t.room()
	if err != nil {
		return err
	}
	t.before = t.now
	t.now = past{step: t.course.next(room), begun: time.Now()}
	t.sampler.begin(t.pod, t.resident)
	if beside := t.now.step.Beside; beside != "" {
		if err := t.innocent.Send(beside); err != nil {
			return err
		}
		defer func() {
			if _, besideErr := t.innocent.Await(ctx, beside); besideErr != nil {
				err = errors.Join(err, besideErr, t.circumstances())
			}
		}()
	}
	_, err = t.hog.Do(ctx, t.now.step.Order)
	ended := errors.Is(err, hog.ErrEnded)
	if err != nil && !ended {
		return err
	}
	if t.now.seen, err = t.sampler.end(); err != nil {
		return err
	}
	return t.account(ctx, ended)
}

// circumstances returns what can have ended a pod: OOM kills and decisions of the agent.
func (t *regretRun) circumstances() error {
	kills, err := t.node.OOMKills()
	errs := []error{err, fmt.Errorf("the kernel killed %d times more", kills-t.ooms)}
	for len(t.agent.Decisions) > 0 {
		if d := <-t.agent.Decisions; d.Decision != agent.Nothing {
			errs = append(errs, fmt.Errorf("%s %s by a %s check at %s: %s", d.Decision, d.Pod, d.Check, d.Time.Format(time.StampMilli), d.Reason))
		}
	}
	return errors.Join(errs...)
}

// startHog starts the hog unless it is alive, with as much memory as leaves the node above the
// threshold. It is a new pod, as a controller would create one: the agent does not evict the
// old pod repeatedly without end.
func (t *regretRun) startHog(ctx context.Context) (err error) {
	if t.hog != nil {
		return nil
	}
	if t.pod != nil {
		if err := t.node.Forget(t.name); err != nil {
			return err
		}
	}
	t.pods++
	t.name = fmt.Sprintf("hog-%d", t.pods)
	if t.pod, err = t.node.AddPod(t.name, ""); err != nil {
		return err
	}
	if t.hog, err = t.node.StartHog(ctx, t.pod, "app"); err != nil {
		return err
	}
	t.node.hogs = append(t.node.hogs, t.hog)
	if err := t.agent.AwaitPods(ctx, 2); err != nil { // the innocent pod and this one
		return err
	}
	room, err := t.room()
	if err != nil {
		return err
	}
	_, err = t.hog.Do(ctx, fmt.Sprintf("fill %d", max(room-atRest, 0)))
	return err
}

// room returns the available memory after reclaim of all page cache, in bytes: steps are
// planned by the kernel's behaviour.
func (t *regretRun) room() (int64, error) {
	used, err := t.node.Usage()
	if err != nil {
		return 0, err
	}
	cache, err := pageCache([]*sandbox.Pod{t.pod, t.resident})
	return t.Limit - used + cache, err
}

// account adds the step to its row. A dead hog was evicted, unless the kernel was faster;
// account waits for the decision.
func (t *regretRun) account(ctx context.Context, ended bool) error {
	row := t.row(&t.now.step)
	row.Steps++
	row.Under += t.now.seen.Under
	row.MinAvailable, row.MinHard = min(row.MinAvailable, t.now.seen.MinAvailable), min(row.MinHard, t.now.seen.MinHard)
	t.gap = max(t.gap, t.now.seen.MaxGap)
	if t.now.seen.Under > 0 {
		row.Crossed++
	}
	if t.now.step.Exhausts {
		row.Exhausts++
	}
	kills, err := t.node.OOMKills()
	if err != nil {
		return err
	}
	if more := kills - t.ooms; more > 0 {
		row.OOMKills, t.ooms = row.OOMKills+more, kills
		t.logf("%s: the kernel killed in %q", row.Workload, t.now.step.Order)
	} else if ended {
		if err := t.evicted(ctx); err != nil {
			return err
		}
	}
	for len(t.agent.Decisions) > 0 {
		if err := t.classify(<-t.agent.Decisions); err != nil {
			return err
		}
	}
	if !ended {
		return nil
	}
	<-t.hog.Process.Done()
	t.hog = nil
	return t.sweep()
}

// sweep removes the named files that a killed hog left.
func (t *regretRun) sweep() error {
	if t.course.dir == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(t.course.dir), os.Mkdir(t.course.dir, 0o700))
}

func (t *regretRun) logf(format string, args ...any) {
	if t.Log != nil {
		t.Log(fmt.Sprintf(format, args...))
	}
}
