package kill

import "golang.org/x/sys/unix"

// stopForks sets the pod's pids.max to 0, so that nothing is born while it is
// being killed, and remembers what it was. It is tried once; where it fails, a
// fork bomb makes the kill take more rounds.
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
	if _, err := unix.Write(fd, zero); err == nil {
		a.pidsMaxLen = n
	}
}

// allowForks gives pids.max its old value back. Survivors have their SIGKILL
// pending and can not fork before they die of it.
func (a *attempt) allowForks() {
	if a.pidsMaxLen == 0 {
		return
	}
	fd, err := openat(a.pids, namePidsMax, unix.O_WRONLY)
	if err != nil {
		return // the directory is gone
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, a.pidsMax[:a.pidsMaxLen])
	a.pidsMaxLen = 0
}

// thaw lets frozen processes of the pod die: the v1 freezer holds back even
// SIGKILL. It comes after the signal, so that no thawed process runs its own
// code once more. A freeze above the pod is not ours to undo.
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
