package kill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Target is a pod as it was observed.
type Target struct {
	UID string
	// Path is the pod's directory relative to the mount of each controller.
	Path string
	// Inode is that of the directory in the memory controller's tree when it was observed.
	Inode uint64
	// Exempt are the names of subdirectories of the pod's directory with processes that receive no
	// signal. They hold next to nothing, and the runtime stops them: the pod's sandbox, and the
	// runtime's watchers of containers, see [cgroup.Container.IsMonitor]. A kubelet that finds a pod
	// without sandbox while a container still dies loses the reason of the eviction
	// (docs/internals/decisions/017).
	Exempt []string
}

// Result is the result of a kill. With an error it contains the progress until then.
type Result struct {
	// Signalled is the number of signalled processes. Through cgroup.kill it is the number listed
	// at the write, and 1 if an incomplete listing found none in a populated pod. After the grace
	// period of a graceful kill it is the number that received SIGKILL.
	Signalled int
	// Invisible is the number of processes in a foreign PID namespace: only cgroup.kill reaches
	// them. On v1 it counts their tasks.
	Invisible int
	Released  int // processes with memory that process_mrelease freed, or found free
	Rounds    int // number of listings with signals

	// ToSignal is the time from the call until the last first signal to a process. ToEmpty is the
	// time until no process was found, and every process signalled last had released its memory; 0
	// if that did not happen. A kill without processes to signal has a ToSignal of 0.
	ToSignal, ToEmpty time.Duration
	// Continued is set if the call returned at its deadline while the kill continues concurrently.
	// It is closed when no process remains.
	Continued <-chan struct{}
}

// Killer ends pods. It performs one immediate and one graceful kill at a time, also of different
// pods: a slow soft eviction never delays a hard one. Immediate kills that were not done at their
// deadline continue concurrently, see [Killer.Immediate].
type Killer struct {
	mounts mounts
	// immediateWorkspaces are those of Immediate and Ended; a continued kill occupies its own.
	immediateWorkspaces [1 + maxContinued]*workspace
	gracefulWorkspace   *workspace    // of Graceful and Await
	usesMrelease        bool          // false only in measurements without process_mrelease
	maxWait             time.Duration // the constant maxWait; longer in tests of the other events that end a wait
	stuckTime           time.Duration // the constant stuckTime; shorter in tests
	continued           continuedKills
}

// mounts are the open roots of the trees; -1 for a missing one.
type mounts struct {
	version cgroup.Version
	// members is the tree with the pod's processes: the memory controller's on v1.
	members       int
	pids, freezer int // v1; v2 without cgroup.kill: pids is members
	device        uint64
	// blind: on v1 in a PID namespace other than the host's, where a listing may be incomplete.
	blind bool
	// oneByOne: cgroup.kill is missing, as on v1 and before Linux 5.14.
	oneByOne bool
}

// hostPIDNamespace is the inode of the first PID namespace, PROC_PID_INIT_INO of
// include/linux/proc_ns.h.
const hostPIDNamespace = 0xEFFFFFFC

func inHostPIDNamespace() bool {
	var st unix.Stat_t
	err := unix.Stat("/proc/self/ns/pid", &st)
	return err == nil && st.Ino == hostPIDNamespace
}

// signalOneByOne prepares for kills without cgroup.kill.
func (m *mounts) signalOneByOne(h cgroup.Hierarchy) {
	m.oneByOne = true
	m.pids, _ = openMount(h.Dir("pids", "/"))
}

// New returns a Killer: it opens the mounts and prefaults the memory for the kills. The pids
// and freezer controllers may be missing on v1; then fork bombs or frozen pods can outlive a kill,
// see [Killer.SelfTest]. Returns an error if the tree of the members cannot be opened, or a
// workspace cannot be prepared.
func New(h cgroup.Hierarchy) (*Killer, error) {
	m := mounts{version: h.Version, pids: -1, freezer: -1}
	var err error
	if m.members, err = openMount(h.Dir("memory", "/")); err != nil {
		return nil, fmt.Errorf("prepare to kill: %w: name where cgroups are mounted", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(m.members, &st); err != nil {
		_ = unix.Close(m.members)
		return nil, fmt.Errorf("prepare to kill: open %s: %w", h.Dir("memory", "/"), err)
	}
	m.device = uint64(st.Dev)
	if h.Version == cgroup.V1 {
		m.freezer, _ = openMount(h.Dir("freezer", "/"))
		m.blind = !inHostPIDNamespace()
	}
	if h.LacksKill() {
		m.signalOneByOne(h)
	}
	k := &Killer{mounts: m, usesMrelease: true, maxWait: maxWait, stuckTime: stuckTime, continued: continuedKills{ending: make(chan struct{})}}
	k.gracefulWorkspace, err = newWorkspace()
	for i := range k.immediateWorkspaces {
		if err == nil {
			k.immediateWorkspaces[i], err = newWorkspace()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare to kill: %w", err), k.Close())
	}
	return k, nil
}

// Close ends the continued kills, and closes the mounts. No call may be in progress. The error is
// always nil.
func (k *Killer) Close() error {
	k.continued.end()
	for _, fd := range []int{k.mounts.members, k.mounts.pids, k.mounts.freezer} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, w := range k.immediateWorkspaces {
		w.close()
	}
	k.gracefulWorkspace.close()
	return nil
}

// minList is the minimum time for a listing.
const minList = 5 * time.Millisecond

// Immediate ends every process of the pod with SIGKILL and waits until none remains, or ctx ends.
// It also signals processes that join the pod meanwhile.
//
// A kill that is not done when ctx ends, even if some processes have not been signalled yet,
// continues in a goroutine of the Killer. It ends when the pod is empty, when a signal could end
// none of the remaining processes, or with [Killer.Close]. The Result contains that. Another call
// for the same pod waits for that kill.
//
// A call that begins after the deadline signals once, too: on a busy machine the thread may have waited
// for a processor, and a pod that was chosen must not survive while the next one is ended. A call that
// begins after ctx was cancelled with another cause than a passed deadline kills nothing.
//
// Returns [ErrGone], [ErrNotPod], [ErrChanged], [ErrNotVisible], [ErrTimeout], [ErrBusy], or an
// error of the kernel.
func (k *Killer) Immediate(ctx context.Context, t Target) (Result, error) {
	if c := k.continued.find(t); c != nil {
		return c.join(ctx)
	}
	a, err := k.begin(k.idleWorkspace(), t)
	if err != nil {
		return Result{}, err
	}
	a.insists = ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	continues := a.insists
	if deadline, ok := ctx.Deadline(); ok {
		// One third of the time each for the listing, for the second listing of signalAll, and for
		// the signals.
		a.listFor = max(deadline.Sub(a.begun)/3, minList)
	}
	err = a.killUntilEmpty(ctx)
	result := a.result
	if continues && errors.Is(err, ErrTimeout) {
		if result.Continued = k.continueConcurrently(a); result.Continued != nil {
			return result, err
		}
	}
	a.allowForks()
	a.end()
	return result, err
}

// idleWorkspace returns a workspace for an immediate kill. If each one is in use, it returns a busy
// one, for which begin returns ErrBusy: one more kill than can continue is in progress.
func (k *Killer) idleWorkspace() *workspace {
	for _, w := range k.immediateWorkspaces {
		if !w.busy.Load() {
			return w
		}
	}
	return k.immediateWorkspaces[0]
}

// begin claims the workspace and opens the verified directory. The attempt is a part of the
// workspace, so that it costs no allocation; the caller must call end. Returns ErrBusy if the
// workspace is in use, and the errors of Immediate for a wrong target.
func (k *Killer) begin(w *workspace, t Target) (*attempt, error) {
	if !w.busy.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("end pod %s: %w", t.UID, ErrBusy)
	}
	a := &w.attempt
	*a = attempt{k: k, w: w, target: t, members: -1, pids: -1, freezer: -1, events: -1, begun: time.Now(), pause: minWait}
	w.signalledPIDs = w.signalledPIDs[:0] // PIDs signalled by an earlier kill
	if err := a.open(); err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// attempt is one kill in progress.
type attempt struct {
	k       *Killer
	w       *workspace
	target  Target
	members int // the pod's verified directory in the tree of its members
	pids    int // of the pids controller, -1 if missing; v2: only without cgroup.kill
	freezer int // v1, -1 if missing
	events  int // v2: cgroup.events, -1 if it cannot be opened
	begun   time.Time
	result  Result

	pause     time.Duration // between two listings if there is no event to wait for
	listFor   time.Duration // time for a listing; 0: until it is complete
	listUntil time.Time     // end of all listings; zero: none

	insists        bool      // the first round takes place even if it is late
	exempting      bool      // the last listing omits the processes of exempt directories; false if they have none
	incomplete     bool      // the last round did not signal all processes: the next one continues it
	fightingRounds int       // rounds that found processes not signalled before, without continued ones
	signalledAny   bool      // a process was signalled
	unlistedKilled bool      // processes missing from the listings were signalled
	lastSignalAt   time.Time // time of the last first signal to a process; before, of the first listing since the kill began or continued, or its grace period ended

	wakeable  bool            // the eventfd ends a wait
	graceful  bool            // a graceful kill after its grace period
	ending    <-chan struct{} // closed by Close; nil until the kill continues
	continued *continuedKill  // the record of this kill once it continues, nil before

	pidsMax    [24]byte // previous value of pids.max
	pidsMaxLen int      // 0: not changed
}

// end closes the files of the attempt and makes its workspace idle.
func (a *attempt) end() {
	for _, fd := range []int{a.members, a.pids, a.freezer, a.events} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	for _, d := range a.w.exemptDirs {
		_ = unix.Close(d.fd)
	}
	a.w.exemptDirs = a.w.exemptDirs[:0]
	a.w.busy.Store(false)
}

// killUntilEmpty performs the kill: it stops forks, and repeats rounds of signals and waits. The
// caller allows forks again afterwards, unless the kill continues. After a [TimeoutError] another
// call resumes the kill.
func (a *attempt) killUntilEmpty(ctx context.Context) error {
	for {
		if err := a.list(&a.w.pids); err != nil {
			return err
		}
		a.continued.note(a)
		if a.empty() {
			a.result.ToEmpty = time.Since(a.begun)
			return nil
		}
		if err := a.refuse(); err != nil {
			return err
		}
		now := time.Now()
		if a.lastSignalAt.IsZero() { // after the listing: a slow one is no reason to give up before the first signal
			a.lastSignalAt = now
		}
		if a.late(ctx) && !a.insists || a.stuck(now) {
			return a.timeout(ctx)
		}
		a.insists = false
		if len(a.w.pids)+a.w.invisible > 0 || a.w.partial != nil { // others are exiting already
			if err := a.round(ctx); err != nil {
				return err
			}
		}
		a.awaitExits(ctx)
		a.closePidfds()
	}
}

// round signals every process of the pod that has not been signalled, once.
func (a *attempt) round(ctx context.Context) error {
	a.result.Rounds++
	countBefore, resumed := a.result.Signalled, a.incomplete
	killed, err := a.killAtOnce()
	if !killed && err == nil {
		a.stopForks()
		err = a.signalAll(ctx, unix.SIGKILL)
	}
	if a.result.Signalled > countBefore {
		a.lastSignalAt = time.Now()
		if !resumed { // otherwise the last round may have missed these processes
			a.fightingRounds++
		}
	}
	if err != nil {
		a.closePidfds()
		return err
	}
	a.thaw()
	a.releaseMemory(ctx)
	return nil
}
