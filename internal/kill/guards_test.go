package kill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Each target names a directory other than that pod's. A process runs below, which could be
// killed by mistake.
func TestKiller_RefusesWrongTargets(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main")
		right := e.target(e.pod.Path())
		burstable := filepath.Dir(right.Path)
		kubepods := filepath.Dir(burstable)
		for name, c := range map[string]struct {
			change func(t *Target)
			want   error
		}{
			"root":              {func(t *Target) { t.Path = "/" }, ErrNotPod},
			"empty path":        {func(t *Target) { t.Path = "" }, ErrNotPod},
			"node":              {func(t *Target) { t.Path = filepath.Dir(kubepods) }, ErrNotPod},
			"kubepods":          {func(t *Target) { t.Path = kubepods }, ErrNotPod},
			"burstable":         {func(t *Target) { t.Path = burstable }, ErrNotPod},
			"container":         {func(t *Target) { t.Path += "/main" }, ErrNotPod},
			"parent":            {func(t *Target) { t.Path += "/.." }, ErrNotPod},
			"dot-dot":           {func(t *Target) { t.Path += "/../pod" + uid }, ErrNotPod},
			"trailing slash":    {func(t *Target) { t.Path += "/" }, ErrNotPod},
			"relative":          {func(t *Target) { t.Path = t.Path[1:] }, ErrNotPod},
			"another UID":       {func(t *Target) { t.UID = "another" }, ErrNotPod},
			"no UID":            {func(t *Target) { t.UID = "" }, ErrNotPod},
			"part of the UID":   {func(t *Target) { t.UID = uid[:8] }, ErrNotPod},
			"kubepods as UID":   {func(t *Target) { t.UID, t.Path = "kubepods", kubepods }, ErrNotPod},
			"zero byte":         {func(t *Target) { t.Path += "\x00" }, ErrNotPod},
			"very long":         {func(t *Target) { t.Path = strings.Repeat("/a", 4096) + t.Path }, ErrNotPod},
			"other inode":       {func(t *Target) { t.Inode++ }, ErrChanged},
			"unknown inode":     {func(t *Target) { t.Inode = 0 }, ErrChanged},
			"parent's inode":    {func(t *Target) { t.Inode = e.target(burstable).Inode }, ErrChanged},
			"another class":     {func(t *Target) { t.Path = strings.Replace(t.Path, "burstable", "besteffort", 1) }, ErrGone},
			"missing pod":       {func(t *Target) { t.UID = "none"; t.Path = burstable + "/podnone" }, ErrGone},
			"missing node":      {func(t *Target) { t.Path = "/none" + t.Path }, ErrGone},
			"systemd name":      {func(t *Target) { t.Path = burstable + "/kubepods-burstable-pod" + uid + ".slice" }, ErrNotPod},
			"outside kubepods":  {func(t *Target) { t.Path = filepath.Dir(kubepods) + "/pod" + uid }, ErrNotPod},
			"class at the root": {func(t *Target) { t.Path = "/burstable/pod" + uid }, ErrNotPod},
		} {
			target := right
			c.change(&target)
			for how, kill := range map[string]func() (Result, error){
				"Immediate": func() (Result, error) { return e.killer.Immediate(e.Context(), target) },
				"Graceful":  func() (Result, error) { return e.killer.Graceful(e.Context(), target, 0, nil) },
			} {
				if result, err := kill(); !errors.Is(err, c.want) || result != (Result{}) {
					e.Errorf("%s, %s: got %+v, error %v, want %v", how, name, result, err, c.want)
				}
			}
		}
		if !h.Process.Alive() {
			e.Fatal("a process was killed by a refused kill")
		}
		e.mustKill() // the right target still works
	})
}

func TestImmediate_ReturnsErrGoneForRemovedPod(t *testing.T) {
	onEachTree(t, func(e *env) {
		target := e.target(e.pod.Path())
		if err := e.node.Close(); err != nil {
			e.Fatal(err)
		}
		if _, err := e.killer.Immediate(e.Context(), target); !errors.Is(err, ErrGone) {
			e.Errorf("got error %v, want %v", err, ErrGone)
		}
	})
}

// A pod that was removed and created again has another inode.
func TestImmediate_ReturnsErrChangedForRecreatedPod(t *testing.T) {
	onEachTree(t, func(e *env) {
		target := e.target(e.pod.Path())
		dir := e.hierarchy.Dir("memory", target.Path)
		for _, d := range []string{dir + "/main", dir + "/side", dir} {
			if err := unix.Rmdir(d); err != nil {
				e.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir+"/main", 0o755); err != nil {
			e.Fatal(err)
		}
		if _, err := e.killer.Immediate(e.Context(), target); !errors.Is(err, ErrChanged) {
			e.Errorf("got error %v, want %v", err, ErrChanged)
		}
	})
}

func TestAttempt_RefusesOwnProcess(t *testing.T) {
	e := onMemory(t)
	victim := e.hog(e.pod, "main")
	// A Killer that runs inside the pod. The guard compares its own PID, so the hog's listing
	// contains the PID of this process instead.
	a, err := e.killer.begin(e.killer.immediateWorkspaces[0], e.target(e.pod.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer a.end()
	for _, pid := range []int{1, os.Getpid()} {
		a.w.pids = append(a.w.pids[:0], pid, victim.Process.PID+1<<20)
		if pid > victim.Process.PID {
			a.w.pids = a.w.pids[:1]
		}
		if err := a.refuse(); !errors.Is(err, ErrNotPod) {
			t.Errorf("a pod with process %d: got error %v, want %v", pid, err, ErrNotPod)
		}
	}
	a.w.pids, a.w.invisible = a.w.pids[:0], 3
	if err := a.refuse(); e.node.Version() == 1 && (!errors.Is(err, ErrNotVisible) || a.result.Invisible != 3) {
		t.Errorf("a pod of a foreign PID namespace: got error %v, want %v", err, ErrNotVisible)
	}
}

// plainPod creates a pod in a tree of plain files, with one process that no signal reaches. It returns
// the pod's directory, its target, and a Killer for the tree.
func plainPod(t *testing.T) (dir string, target Target, k *Killer) {
	t.Helper()
	root, path := t.TempDir(), "/kubepods/pod"+uid
	dir = root + path
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The PID is beyond PID_MAX_LIMIT: no process has it.
	for name, text := range map[string]string{"cgroup.procs": "4194304\n", "cgroup.events": "populated 1\n", "cgroup.kill": ""} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	k, err := New(cgroup.At(cgroup.V2, root))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return dir, Target{UID: uid, Path: path, Inode: st.Ino}, k
}

// A process in an uninterruptible system call does not occupy the workspace of graceful kills for the
// grace period that an escalation has cut short. The kill waits for it, and does not signal it again and
// again.
func TestGraceful_EndsWhenNothingIsLeftToSignal(t *testing.T) {
	dir, target, k := plainPod(t)
	k.stuckTime = 1 // it counts from the first signal, however long that takes
	escalate := make(chan struct{})
	close(escalate)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := k.Graceful(ctx, target, time.Hour, escalate)
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.Left != 1 || result.Signalled != 1 || result.Rounds != 1 || ctx.Err() != nil {
		t.Fatalf("got %+v, error %v, the context's is %v: want 1 process signalled and left in 1 round, before the deadline", result, err, ctx.Err())
	}
	if err := os.WriteFile(dir+"/cgroup.procs", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/cgroup.events", []byte("populated 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Graceful(ctx, target, time.Hour, nil); err != nil {
		t.Errorf("the next graceful kill: got error %v", err)
	}
}

// A tree of plain files allows links.
func TestImmediate_FollowsNoSymlink(t *testing.T) {
	root := t.TempDir()
	pod := "/kubepods/pod" + uid
	for _, dir := range []string{"/real" + pod, "/other"} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/real"+pod+"/cgroup.procs", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"/other/kubepods": "../real/kubepods", "/linked": "real"} {
		if err := os.Symlink(to, root+from); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(root+"/last/kubepods", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../real"+pod, root+"/last"+pod); err != nil {
		t.Fatal(err)
	}
	k, err := New(cgroup.At(cgroup.V2, root))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var st unix.Stat_t
	if err := unix.Stat(root+"/real"+pod, &st); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]error{"/real": nil, "/other": ErrNotPod, "/linked": ErrNotPod, "/last": ErrNotPod} {
		_, err := k.Immediate(t.Context(), Target{UID: uid, Path: node + pod, Inode: st.Ino})
		if !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", node, err, want)
		}
	}
}

func TestTimeoutError_DescribesStragglers(t *testing.T) {
	err := error(&TimeoutError{UID: "u", Left: 7, Cause: context.DeadlineExceeded, Stragglers: []Straggler{
		{PID: 4, Command: "dd", State: 'D'}, {PID: 5, Command: "?"}}})
	const want = "end pod u: 7 processes left (context deadline exceeded): process 4 (dd) in state D, process 5 (?) in unknown state; " +
		"state D waits for a device or file system and dies when that answers: look at /proc/PID/stack"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrGone) {
		t.Errorf("error %v matches the wrong kind", err)
	}
}

func TestNew_RequiresMount(t *testing.T) {
	if k, err := New(cgroup.At(cgroup.V1, t.TempDir())); err == nil {
		t.Error("got a Killer without a memory controller")
		_ = k.Close()
	}
}

func TestImmediate_ReturnsErrBusy(t *testing.T) {
	e := onMemory(t)
	for _, w := range e.killer.immediateWorkspaces {
		w.busy.Store(true)
	}
	if _, err := e.killer.Immediate(e.within(time.Second), e.target(e.pod.Path())); !errors.Is(err, ErrBusy) {
		t.Errorf("got error %v, want %v", err, ErrBusy)
	}
	for _, w := range e.killer.immediateWorkspaces {
		w.busy.Store(false)
	}
	e.mustKill()
}
