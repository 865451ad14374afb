package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait of Close for killed processes.
const patience = 20 * time.Second

// Close ends every process inside the node, including frozen ones and fork bombs, and removes
// its directories. It is idempotent and also cleans up an incomplete node. Returns an error if
// a process or directory remains after 20 s.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if err := errors.Join(remove(n.dirs()), n.removeSlice()); err != nil {
		return fmt.Errorf("close sandbox node %s: %w", n.name, err)
	}
	open.Delete(n)
	return nil
}

// remove ends the processes in the directories and removes them, deepest first.
func remove(dirs []string) error {
	deadline := time.Now().Add(patience)
	for {
		for _, dir := range dirs { // no new processes; absent where it is another controller's
			_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte("0"), 0)
		}
		left, err := endAll(dirs, deadline)
		if err != nil {
			return err
		}
		err = removeTrees(dirs)
		if left == 0 && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("%d processes left after %v", left, patience))
		}
		// The kernel sends no event when a dying task has left a v1 cgroup: poll.
		_, _ = unix.Poll(nil, 1)
	}
}

// endAll kills the processes of the trees, thaws them so that they can exit, waits for their
// exit, and returns their number.
func endAll(dirs []string, deadline time.Time) (int, error) {
	pids, err := processesOf(dirs)
	if err != nil || len(pids) == 0 {
		return 0, err
	}
	fds := make(map[int]int)
	for pid := range pids {
		if pid <= 1 || pid == os.Getpid() {
			return 0, fmt.Errorf("%v hold process %d, which is not the sandbox's: move it out", dirs, pid)
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
			defer unix.Close(fd)
		}
	}
	still, err := processesOf(dirs)
	if err != nil {
		return 0, err
	}
	for pid, fd := range fds {
		if !still[pid] {
			delete(fds, pid)
			continue
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	for _, dir := range dirs {
		thaw(dir)
	}
	for _, fd := range fds {
		awaitExit(fd, deadline)
	}
	return len(pids), nil
}

func processesOf(dirs []string) (map[int]bool, error) {
	set := make(map[int]bool)
	for _, dir := range dirs {
		pids, err := processesBelow(dir)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			set[pid] = true
		}
	}
	return set, nil
}

func awaitExit(pidfd int, deadline time.Time) {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		if _, err := unix.Poll(poll, int(left.Milliseconds())+1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// thaw reverts every freeze in the tree: a v1-frozen process does not act on SIGKILL. The files
// are absent where the tree is another controller's.
func thaw(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.WriteFile(filepath.Join(path, "freezer.state"), []byte("THAWED"), 0)
			_ = os.WriteFile(filepath.Join(path, "cgroup.freeze"), []byte("0"), 0)
		}
		return nil
	})
}

func removeTrees(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// removeTree uses rmdir(2) only, so that a wrong path costs no data.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// gone reports whether a cgroup was removed: before the file was opened, or under an open one.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
