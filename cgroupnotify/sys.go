package cgroupnotify

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raw system calls are ones that Go's scheduler is not told of: being told, it
// wakes its monitor, which costs more than the call. Both return within
// microseconds and never sleep, so that nobody waits for the processor meanwhile.

// setTimer is timerfd_settime(2), raw: once, after this time.
func (s *set) setTimer(left time.Duration) error {
	s.spec.Value = unix.NsecToTimespec(int64(left))
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(s.timer), 0,
		uintptr(unsafe.Pointer(&s.spec)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// there is epoll_pwait(2) that does not wait, raw: how many events there are.
func (s *set) there() (n int, err error) {
	count, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll),
		uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(count), nil
}

// await is epoll_wait(2) until there is an event: the scheduler is told, as it
// has to give the processor to others.
func (s *set) await() (n int, err error) {
	n, err = unix.EpollWait(s.epoll, s.events[:], -1)
	return max(n, 0), err
}
