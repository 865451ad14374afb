package kill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/cgroup"
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
	// forgets why the pod was evicted (docs/decisions/017), and what a runtime
	// watches containers with, see [cgroup.Container.Watches].
	Spare []string
}

// A Result is what a kill did. It is filled in as far as the kill came, with an
// error too.
type Result struct {
	// Signalled processes; through cgroup.kill, those listed when it was written;
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
}

// A Killer ends pods. It can do one immediate and one graceful kill at a time,
// of different pods too: a slow soft eviction never holds up a hard one.
type Killer struct {
	mounts   mounts
	urgent   *workspace // of Immediate
	patient  *workspace // of Graceful
	released bool       // whether process_mrelease is used; tests measure without it
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
	k := &Killer{mounts: m, released: true}
	if k.urgent, err = newWorkspace(); err == nil {
		k.patient, err = newWorkspace()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to kill: %w", err), k.Close())
	}
	return k, nil
}

// Close closes the mounts. No kill may be under way.
func (k *Killer) Close() error {
	for _, fd := range []int{k.mounts.members, k.mounts.pids, k.mounts.freezer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	k.urgent.close()
	k.patient.close()
	return nil
}

// Immediate ends every process of the pod with SIGKILL and waits until none is
// left, or ctx ends. It keeps signalling what joins the pod meanwhile.
//
// Errors: [ErrGone], [ErrNotPod], [ErrChanged], [ErrNotVisible], [ErrTimeout],
// [ErrBusy], or what the kernel refused.
func (k *Killer) Immediate(ctx context.Context, t Target) (Result, error) {
	a, err := k.begin(k.urgent, t)
	if err != nil {
		return Result{}, err
	}
	defer a.end()
	err = a.killUntilEmpty(ctx)
	return a.result, err
}

// Ended reports whether no process of the pod is left but those it is to spare. What
// can not be told is not so. It costs what a listing does, and touches nothing;
// no immediate kill may be under way.
func (k *Killer) Ended(t Target) bool {
	a, err := k.begin(k.urgent, t)
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	defer a.end()
	return a.list(&a.w.pids) == nil && a.empty()
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

// killUntilEmpty is the kill: forks stopped, then rounds of signals and waits.
func (a *attempt) killUntilEmpty(ctx context.Context) error {
	defer a.allowForks()
	for {
		if err := a.list(&a.w.pids); err != nil {
			return err
		}
		if a.empty() {
			a.result.ToEmpty = time.Since(a.begun)
			return nil
		}
		if err := a.refuse(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return a.timeout(ctx)
		}
		if len(a.w.pids)+a.w.invisible > 0 { // others are leaving already
			a.stopForks()
			if err := a.round(); err != nil {
				return err
			}
		}
		a.awaitExits(ctx, false)
		a.closePidfds()
	}
}

// round signals every process of the pod once.
func (a *attempt) round() error {
	a.result.Rounds++
	before := a.result.Signalled
	signalled, err := a.killAtOnce()
	if !signalled && err == nil {
		err = a.signalAll(unix.SIGKILL)
	}
	if a.result.Signalled > before {
		a.fought++
	}
	if err != nil {
		a.closePidfds()
		return err
	}
	a.thaw()
	a.release()
	return nil
}
