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

// Every way to name a directory other than that pod's, with a running process in each that could be
// hit.
func TestRefusesWhatIsNotThePod(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		right := r.target(r.pod.Path())
		burstable := filepath.Dir(right.Path)
		kubepods := filepath.Dir(burstable)
		for name, c := range map[string]struct {
			change func(t *Target)
			want   error
		}{
			"root":              {func(t *Target) { t.Path = "/" }, ErrNotPod},
			"nothing":           {func(t *Target) { t.Path = "" }, ErrNotPod},
			"node":              {func(t *Target) { t.Path = filepath.Dir(kubepods) }, ErrNotPod},
			"kubepods":          {func(t *Target) { t.Path = kubepods }, ErrNotPod},
			"burstable":         {func(t *Target) { t.Path = burstable }, ErrNotPod},
			"container":         {func(t *Target) { t.Path += "/main" }, ErrNotPod},
			"way up":            {func(t *Target) { t.Path += "/.." }, ErrNotPod},
			"way round":         {func(t *Target) { t.Path += "/../pod" + uid }, ErrNotPod},
			"slash at the end":  {func(t *Target) { t.Path += "/" }, ErrNotPod},
			"relative":          {func(t *Target) { t.Path = t.Path[1:] }, ErrNotPod},
			"another UID":       {func(t *Target) { t.UID = "another" }, ErrNotPod},
			"no UID":            {func(t *Target) { t.UID = "" }, ErrNotPod},
			"part of the UID":   {func(t *Target) { t.UID = uid[:8] }, ErrNotPod},
			"kubepods as UID":   {func(t *Target) { t.UID, t.Path = "kubepods", kubepods }, ErrNotPod},
			"zero byte":         {func(t *Target) { t.Path += "\x00" }, ErrNotPod},
			"very long":         {func(t *Target) { t.Path = strings.Repeat("/a", 4096) + t.Path }, ErrNotPod},
			"other inode":       {func(t *Target) { t.Inode++ }, ErrChanged},
			"unknown inode":     {func(t *Target) { t.Inode = 0 }, ErrChanged},
			"inode of above":    {func(t *Target) { t.Inode = r.target(burstable).Inode }, ErrChanged},
			"another class":     {func(t *Target) { t.Path = strings.Replace(t.Path, "burstable", "besteffort", 1) }, ErrGone},
			"pod that is not":   {func(t *Target) { t.UID = "none"; t.Path = burstable + "/podnone" }, ErrGone},
			"node that is not":  {func(t *Target) { t.Path = "/none" + t.Path }, ErrGone},
			"systemd's name":    {func(t *Target) { t.Path = burstable + "/kubepods-burstable-pod" + uid + ".slice" }, ErrNotPod},
			"outside kubepods":  {func(t *Target) { t.Path = filepath.Dir(kubepods) + "/pod" + uid }, ErrNotPod},
			"a class above all": {func(t *Target) { t.Path = "/burstable/pod" + uid }, ErrNotPod},
		} {
			target := right
			c.change(&target)
			for how, kill := range map[string]func() (Result, error){
				"Immediate": func() (Result, error) { return r.killer.Immediate(r.Context(), target) },
				"Graceful":  func() (Result, error) { return r.killer.Graceful(r.Context(), target, 0, nil) },
			} {
				if result, err := kill(); !errors.Is(err, c.want) || result != (Result{}) {
					r.Errorf("%s, %s: %+v, error %v, want %v", how, name, result, err, c.want)
				}
			}
		}
		if !h.Process.Alive() {
			r.Fatal("a refused kill killed")
		}
		r.mustKill() // and the right target still works
	})
}

func TestVanishedDirectory(t *testing.T) {
	onEach(t, func(r *rig) {
		target := r.target(r.pod.Path())
		if err := r.node.Close(); err != nil {
			r.Fatal(err)
		}
		if _, err := r.killer.Immediate(r.Context(), target); !errors.Is(err, ErrGone) {
			r.Errorf("error %v, want %v", err, ErrGone)
		}
	})
}

// A pod that was removed and created again has another inode.
func TestPodMadeAgain(t *testing.T) {
	onEach(t, func(r *rig) {
		target := r.target(r.pod.Path())
		dir := r.hierarchy.Dir("memory", target.Path)
		for _, d := range []string{dir + "/main", dir + "/side", dir} {
			if err := unix.Rmdir(d); err != nil {
				r.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir+"/main", 0o755); err != nil {
			r.Fatal(err)
		}
		if _, err := r.killer.Immediate(r.Context(), target); !errors.Is(err, ErrChanged) {
			r.Errorf("error %v, want %v", err, ErrChanged)
		}
	})
}

func TestRefusesItself(t *testing.T) {
	r := onMemory(t)
	victim := r.hog(r.pod, "main")
	// A Killer that runs inside the pod. The guard compares its own PID, so the hog's listing
	// contains the PID of this process instead.
	a, err := r.killer.begin(r.killer.urgent[0], r.target(r.pod.Path()))
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
			t.Errorf("a pod that holds process %d: error %v, want %v", pid, err, ErrNotPod)
		}
	}
	a.w.pids, a.w.invisible = a.w.pids[:0], 3
	if err := a.refuse(); r.node.Version() == 1 && (!errors.Is(err, ErrNotVisible) || a.result.Invisible != 3) {
		t.Errorf("a pod of a foreign PID namespace: error %v, want %v", err, ErrNotVisible)
	}
}

// On a tree of plain files, which allows links.
func TestFollowsNoLink(t *testing.T) {
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
			t.Errorf("%s: error %v, want %v", node, err, want)
		}
	}
}

func TestTimeoutErrorNamesTheStates(t *testing.T) {
	err := error(&TimeoutError{UID: "u", Left: 7, Cause: context.DeadlineExceeded, Stragglers: []Straggler{
		{PID: 4, Command: "dd", State: 'D'}, {PID: 5, Command: "?"}}})
	const want = "end pod u: 7 processes left (context deadline exceeded): process 4 (dd) in state D, process 5 (?) in unknown state; " +
		"state D waits for a device or file system and dies when that answers: look at /proc/PID/stack"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrGone) {
		t.Error("wrong kind of error")
	}
}

func TestNewNeedsAMount(t *testing.T) {
	if k, err := New(cgroup.At(cgroup.V1, t.TempDir())); err == nil {
		t.Error("a Killer without a memory controller")
		_ = k.Close()
	}
}

func TestBusy(t *testing.T) {
	r := onMemory(t)
	for _, w := range r.killer.urgent {
		w.busy.Store(true)
	}
	if _, err := r.killer.Immediate(r.within(time.Second), r.target(r.pod.Path())); !errors.Is(err, ErrBusy) {
		t.Errorf("error %v, want %v", err, ErrBusy)
	}
	for _, w := range r.killer.urgent {
		w.busy.Store(false)
	}
	r.mustKill()
}
