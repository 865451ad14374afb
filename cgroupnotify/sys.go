package cgroupnotify

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raw system calls bypass Go's scheduler. A regular call wakes its monitor thread, which costs
// more than the call. Both return within microseconds and never sleep, so they do not delay
// other goroutines.

// setTimer calls timerfd_settime(2), raw: once, after this time.
func (s *set) setTimer(left time.Duration) error {
	s.spec.Value = unix.NsecToTimespec(int64(left))
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(s.timer), 0,
		uintptr(unsafe.Pointer(&s.spec)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// pollNow calls epoll_pwait(2) without waiting, raw, and returns the number of events.
func (s *set) pollNow() (n int, err error) {
	count, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll),
		uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(count), nil
}

// await calls epoll_wait(2) until an event. It is a regular call, so that the scheduler can run
// other goroutines.
func (s *set) await() (n int, err error) {
	n, err = unix.EpollWait(s.epoll, s.events[:], -1)
	return max(n, 0), err
}
