package arena

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait for killed processes. Hundreds of them on a full node that is emulated need more than 20 s.
const patience = 2 * time.Minute

// Close ends the processes in the node and removes its directories. It is idempotent. Returns an error if
// something remains after 2 minutes.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if err := remove(n.made); err != nil {
		return err
	}
	n.made = nil
	return n.reaper.close()
}

// EndContestant ends what is left of the contestant.
func (n *Node) EndContestant() error {
	return endAll(n.ContestantPlace().dirs, time.Now().Add(patience))
}

// NoteDirectory has the reaper remove a directory of files too if this process is killed.
func (n *Node) NoteDirectory(dir string) error { return n.reaper.note("directory", dir) }

// remove ends the processes in directories and those below, which a contestant may have made, and removes
// them.
func remove(made []string) error {
	deadline := time.Now().Add(patience)
	for {
		all, err := withBelow(made)
		if err != nil {
			return err
		}
		for _, dir := range all { // no new processes; the file is absent in other controllers
			_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte("0"), 0)
		}
		if err = endAll(all, deadline); err == nil {
			err = removeDirectories(all)
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("end the node: %w", err)
		}
		_, _ = unix.Poll(nil, 2) // a task leaves its v1 cgroup without an event
	}
}

// withBelow returns directories and those below them, parents first. Those that are gone are left out.
func withBelow(made []string) (all []string, err error) {
	for _, dir := range made {
		found, err := tree(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.Sort(all) // a parent is the beginning of its children
	return slices.Compact(all), nil
}

// removeDirectories removes the last one first.
func removeDirectories(all []string) error {
	for _, dir := range slices.Backward(all) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

// endAll kills the processes in the directories until there are none.
func endAll(dirs []string, deadline time.Time) error {
	for {
		pids, err := processes(dirs)
		if err != nil || len(pids) == 0 {
			return err
		}
		for pid := range pids {
			if pid <= 1 || pid == os.Getpid() {
				return fmt.Errorf("%v contain process %d, which is not of this run", dirs, pid)
			}
			if err := end(pid, dirs); err != nil {
				return err
			}
		}
		for _, dir := range dirs { // a frozen process of cgroup v1 does not act on SIGKILL
			_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
			_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes left in %v after %v", len(pids), dirs, patience)
		}
		_, _ = unix.Poll(nil, 2)
	}
}

// end kills a process if it still is in one of the directories once a descriptor holds its identity.
func end(pid int, dirs []string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // gone, or a thread
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	still, err := processes(dirs)
	if err != nil || !still[pid] {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// processes lists the processes of directories, without those below them.
func processes(dirs []string) (map[int]bool, error) {
	pids := map[int]bool{}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
			}
			pids[pid] = true
		}
	}
	return pids, nil
}
