package kill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// A Target is a pod as it was observed.
type Target struct {
	UID string
	// Path of the pod's directory relative to each controller's mount.
	Path string
	// Inode of the directory in the memory controller's tree when it was
	// observed.
	Inode uint64
	// Spare are the directories right in the pod's whose processes are left alone.
	// They hold next to nothing, and are the runtime's to stop: the pod's sandbox,
	// since a kubelet that finds a pod without it while a container still dies
	// forgets why the pod was evicted (docs/internals/decisions/017), and what a runtime
	// watches containers with, see [cgroup.Container.Watches].
	Spare []string
}

// A Result is what a kill did. It is filled in as far as the kill came, with an
// error too.
type Result struct {
	// Signalled processes; through cgroup.kill, those listed when it was written, and
	// one where a listing that was cut found none of a populated pod;
	// of a graceful kill that ran out of patience, those that got SIGKILL.
	Signalled int
	// Invisible processes are in a foreign PID namespace: only cgroup.kill reaches
	// them. On v1 their tasks are counted.
	Invisible int
	Released  int // processes whose memory process_mrelease freed, or found free
	Rounds    int // how often the pod was listed and signalled

	// ToSignal is the time from the call until the last first signal to a
	// process was sent; ToEmpty until the pod was seen without processes, and
	// every process that was signalled last had given up its memory; 0 if it was
	// not. A kill that found nothing to signal has a ToSignal of 0.
	ToSignal, ToEmpty time.Duration
	// Rest is set where the call has returned at its deadline and the kill goes on
	// beside the caller. It is closed when no process is left.
	Rest <-chan struct{}
}

// A Killer ends pods. It can do one immediate and one graceful kill at a time,
// of different pods too: a slow soft eviction never holds up a hard one. Beside them
// go on immediate kills that were not done at their deadline, see [Killer.Immediate].
type Killer struct {
	mounts   mounts
	urgent   [1 + maxRests]*workspace // of Immediate, and of kills that go on
	patient  *workspace               // of Graceful
	released bool                     // whether process_mrelease is used; tests measure without it
	longest  time.Duration            // longestWait; longer in tests of what else ends a wait
	rests    rests
}

// mounts are the roots of the trees, kept open; -1 where there is none.
type mounts struct {
	version cgroup.Version
	// members is the tree whose members are the pod's processes: the memory
	// controller's on v1.
	members       int
	pids, freezer int // v1
	device        uint64
	// blind: on v1 in a PID namespace that is not the host's, where a listing
	// may be short.
	blind bool
}

// hostPIDNamespace is the inode of the first PID namespace, PROC_PID_INIT_INO of
// include/linux/proc_ns.h.
const hostPIDNamespace = 0xEFFFFFFC

func inHostPIDNamespace() bool {
	var st unix.Stat_t
	err := unix.Stat("/proc/self/ns/pid", &st)
	return err == nil && st.Ino == hostPIDNamespace
}

// New prepares a Killer: it opens the mounts and touches the memory that kills
// will use. The pids and freezer controllers may be missing on v1; fork bombs or
// frozen pods can outlive a kill then, see [Killer.SelfTest].
func New(h cgroup.Hierarchy) (*Killer, error) {
	m := mounts{version: h.Version, pids: -1, freezer: -1}
	var err error
	if m.members, err = openMount(h.Dir("memory", "/")); err != nil {
		return nil, fmt.Errorf("prepare to kill: %w: name where cgroups are mounted", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(m.members, &st); err != nil {
		_ = unix.Close(m.members)
		return nil, fmt.Errorf("prepare to kill: look at %s: %w", h.Dir("memory", "/"), err)
	}
	m.device = uint64(st.Dev)
	if h.Version == cgroup.V1 {
		m.pids, _ = openMount(h.Dir("pids", "/"))
		m.freezer, _ = openMount(h.Dir("freezer", "/"))
		m.blind = !inHostPIDNamespace()
	}
	k := &Killer{mounts: m, released: true, longest: maxWait, rests: rests{ending: make(chan struct{})}}
	k.patient, err = newWorkspace()
	for i := range k.urgent {
		if err == nil {
			k.urgent[i], err = newWorkspace()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to kill: %w", err), k.Close())
	}
	return k, nil
}

// Close ends the kills that go on, and closes the mounts. No call may be under way.
func (k *Killer) Close() error {
	k.rests.end()
	for _, fd := range []int{k.mounts.members, k.mounts.pids, k.mounts.freezer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, w := range k.urgent {
		w.close()
	}
	k.patient.close()
	return nil
}

// Immediate ends every process of the pod with SIGKILL and waits until none is
// left, or ctx ends. It keeps signalling what joins the pod meanwhile.
//
// A kill that is not done when ctx ends, be it that signals have not reached every
// process yet, goes on in a goroutine of the Killer's: until the pod is empty, nothing
// is left that a signal could end, or [Killer.Close]. The Result says so. Another call
// for the same pod waits for that one.
//
// Errors: [ErrGone], [ErrNotPod], [ErrChanged], [ErrNotVisible], [ErrTimeout],
// [ErrBusy], or what the kernel refused.
func (k *Killer) Immediate(ctx context.Context, t Target) (Result, error) {
	if r := k.rests.of(t); r != nil {
		return r.join(ctx)
	}
	a, err := k.begin(k.free(), t)
	if err != nil {
		return Result{}, err
	}
	inTime := !a.late(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		a.listFor = max(deadline.Sub(a.begun)/3, 1) // one listing, another one, and the signals
	}
	err = a.killUntilEmpty(ctx)
	result := a.result
	if inTime && errors.Is(err, ErrTimeout) {
		if result.Rest = k.goOn(a); result.Rest != nil {
			return result, err
		}
	}
	a.allowForks()
	a.end()
	return result, err
}

// free is a workspace that no kill goes on in; that of the urgent kill under way if
// there is none.
func (k *Killer) free() *workspace {
	for _, w := range k.urgent {
		if !w.busy.Load() {
			return w
		}
	}
	return k.urgent[0]
}

// begin claims the workspace and opens the verified directory.
func (k *Killer) begin(w *workspace, t Target) (*attempt, error) {
	if !w.busy.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("end pod %s: %w", t.UID, ErrBusy)
	}
	a := &w.attempt
	*a = attempt{k: k, w: w, target: t, members: -1, pids: -1, freezer: -1, events: -1, begun: time.Now()}
	w.before = w.before[:0] // whom an earlier kill has signalled
	if err := a.open(); err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// An attempt is one kill under way.
type attempt struct {
	k       *Killer
	w       *workspace
	target  Target
	members int  // the pod's verified directory in the tree of its members
	pids    int  // v1, -1 if there is none
	freezer int  // v1, -1 if there is none
	events  int  // v2: cgroup.events, -1 if it can not be opened
	sparing bool // those that are left alone have processes, and they are left out
	fought  int  // rounds that found processes not signalled before
	touched bool // a process was signalled
	begun   time.Time
	result  Result

	listFor   time.Duration   // how long a listing may take; 0: until it is complete
	listUntil time.Time       // when all listings end; zero: none ends by it
	cut       bool            // the last round did not signal all it should have
	wakeable  bool            // the eventfd ends a wait
	ending    <-chan struct{} // closed when the Killer is
	rest      *rest           // what this kill is that goes on, nil before
	signalled time.Time       // when a process was last signalled for the first time

	unlistedKilled bool // processes that no listing has found were signalled

	pidsMax    [24]byte // what pids.max said before
	pidsMaxLen int      // 0: not changed
}

func (a *attempt) end() {
	for _, fd := range []int{a.members, a.pids, a.freezer, a.events} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, s := range a.w.spares {
		_ = unix.Close(s.dir)
	}
	a.w.spares = a.w.spares[:0]
	a.w.busy.Store(false)
}

// killUntilEmpty is the kill: forks stopped, then rounds of signals and waits. Forks
// are to be allowed again when it is over.
func (a *attempt) killUntilEmpty(ctx context.Context) error {
	for {
		if err := a.list(&a.w.pids); err != nil {
			return err
		}
		a.rest.note(a)
		if a.empty() {
			a.result.ToEmpty = time.Since(a.begun)
			return nil
		}
		if err := a.refuse(); err != nil {
			return err
		}
		if a.late(ctx) || a.stuck(time.Now()) {
			return a.timeout(ctx)
		}
		if len(a.w.pids)+a.w.invisible > 0 || a.w.partial != nil { // others are leaving already
			a.stopForks()
			if err := a.round(ctx); err != nil {
				return err
			}
		}
		a.awaitExits(ctx)
		a.closePidfds()
	}
}

// round signals every process of the pod once that has not been signalled.
func (a *attempt) round(ctx context.Context) error {
	a.result.Rounds++
	before, resumed := a.result.Signalled, a.cut
	signalled, err := a.killAtOnce()
	if !signalled && err == nil {
		err = a.signalAll(ctx, unix.SIGKILL)
	}
	if a.result.Signalled > before {
		a.signalled = time.Now()
		if !resumed {
			a.fought++
		}
	}
	if err != nil {
		a.closePidfds()
		return err
	}
	a.thaw()
	a.release(ctx)
	return nil
}
