package kill

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// attrPidsMax is the extended attribute of a pod's directory in the pids tree with the value of
// pids.max before a kill set it to 0. It is removed with the directory, and remains when the agent
// is killed during the kill: see [Killer.Restore].
const attrPidsMax = "user.plimsoll.pids-max"

// stopForks, for a kill without cgroup.kill, sets the pod's pids.max to 0, so that the pod cannot
// fork meanwhile, and records the previous value. It is attempted once; if it fails, a fork bomb
// makes the kill take more rounds. A pids.max of 0 is not changed, unless the attribute shows that it
// is from another kill.
func (a *attempt) stopForks() {
	if a.pids < 0 || a.pidsMaxLen > 0 {
		return
	}
	fd, err := openat(a.pids, namePidsMax, unix.O_RDWR)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, a.pidsMax[:])
	if err != nil || n <= 0 {
		return
	}
	if isZero(a.pidsMax[:n]) {
		a.pidsMaxLen = a.recorded()
		return
	}
	_ = setxattr(a.pids, namePidsMaxWas, a.pidsMax[:n]) // not supported before Linux 5.7
	if _, err := unix.Write(fd, zero); err == nil {
		a.pidsMaxLen = n
	}
}

// recorded reads the previous value of pids.max into pidsMax and returns its length; 0 if no kill
// recorded one.
func (a *attempt) recorded() int {
	n, errno := getxattr(a.pids, namePidsMaxWas, a.pidsMax[:])
	if errno != 0 {
		return 0
	}
	return n
}

func isZero(text []byte) bool { return string(text) == "0\n" || string(text) == "0" }

// allowForks restores pids.max. Survivors have their SIGKILL pending and cannot fork before they
// die of it.
func (a *attempt) allowForks() {
	if a.pidsMaxLen == 0 {
		return
	}
	n := a.pidsMaxLen
	a.pidsMaxLen = 0
	fd, err := openat(a.pids, namePidsMax, unix.O_WRONLY)
	if err != nil {
		return // the directory is gone
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, a.pidsMax[:n]); err == nil {
		_ = removexattr(a.pids, namePidsMaxWas)
	}
}

// Restore restores the pids.max of a pod that a kill set to 0, if the agent was killed before it
// could do so, and reports whether that was necessary. No kill of this pod may be in progress;
// kills of other pods may.
//
// Returns the errors of [Killer.Immediate], and that of the kernel if pids.max cannot be written.
func (k *Killer) Restore(t Target) (restored bool, err error) {
	if k.mounts.pids < 0 {
		return false, nil
	}
	// It has a small workspace of its own: the others may be in use for a grace period.
	a, err := k.begin(&workspace{path: make([]byte, pathSize), text: make([]byte, len(attempt{}.pidsMax))}, t)
	if err != nil {
		return false, err
	}
	defer a.end()
	if a.pidsMaxLen = a.recorded(); a.pidsMaxLen == 0 {
		return false, nil
	}
	fd, err := openat(a.pids, namePidsMax, unix.O_RDWR)
	if err != nil {
		return false, a.failed(fmt.Errorf("open pids.max: %w", err))
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, a.w.text)
	if err != nil {
		return false, a.failed(fmt.Errorf("read pids.max: %w", err))
	}
	if restored = isZero(a.w.text[:n]); restored {
		if _, err := unix.Write(fd, a.pidsMax[:a.pidsMaxLen]); err != nil {
			return false, a.failed(fmt.Errorf("set pids.max to %q, as it was before a kill that was interrupted: %w", a.pidsMax[:a.pidsMaxLen], err))
		}
	}
	_ = removexattr(a.pids, namePidsMaxWas)
	return restored, nil
}

// thaw lets frozen processes of the pod die: the v1 freezer holds back even SIGKILL. It follows the
// signal, so that no thawed process executes its own code again. A freeze above the pod is not
// changed.
func (a *attempt) thaw() {
	if a.freezer < 0 {
		return
	}
	_ = a.walk(a.freezer, thawOne)
}

func thawOne(dir int) error {
	fd, err := openat(dir, nameFreezerState, unix.O_WRONLY)
	if err != nil {
		return nil // gone
	}
	_, _ = unix.Write(fd, thawed)
	_ = unix.Close(fd)
	return nil
}
