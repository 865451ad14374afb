package cgroupnotify

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// wait waits until the time given, or until something wakes.
func (s *set) wait(until time.Time) (woken signals.Wakes) {
	for {
		now := time.Now()
		left := min(until.Sub(now), s.arm(now))
		n, err := s.poll(left)
		if err != nil {
			s.pass(left)
		}
		for i := range s.events[:n] {
			woken |= s.heard(&s.events[i])
		}
		if s.swallowed {
			s.swallowed = false
			woken |= s.hearPressure()
		}
		if woken != 0 || !time.Now().Before(until) {
			return woken
		}
	}
}

// arm has those ears heard again that have rested, and returns how long the
// next one still rests. What it missed meanwhile, it hears at once.
func (s *set) arm(now time.Time) (next time.Duration) {
	next = longest
	for slot, e := range s.ears {
		if e == nil || e.armed {
			continue
		}
		if rests := e.pace.free().Sub(now); rests > 0 {
			next = min(next, rests)
			continue
		}
		e.armed = true
		if err := s.control(unix.EPOLL_CTL_MOD, e.fd, slot, e.events); err != nil {
			e.of.fail(fmt.Errorf("wait for a notification: epoll_ctl: %w", err))
		}
	}
	return next
}

// longest is longer than any wait.
const longest = 1<<63 - 1

// poll asks epoll once. A timer of its own is exact to some 0.1 ms however long
// the wait; the timeout of epoll_pwait2 may be late by a thousandth of it, and
// older kernels (before 5.11) and stricter seccomp profiles have none.
func (s *set) poll(left time.Duration) (n int, err error) {
	if left > 0 {
		if err := s.setTimer(left); err != nil {
			return 0, err
		}
	}
	switch {
	case left >= restTime:
		return s.park()
	case left > 0:
		n, err = s.await()
	default:
		n, err = s.there()
	}
	if err == unix.EINTR { // a signal of the Go runtime's own
		return 0, nil
	}
	return n, err
}

// restTime is a wait that is spent in the runtime's own poller. A thread that
// waits in a system call holds a processor of Go's scheduler, whose monitor polls
// until it has taken it: 18 wake-ups for a wait of 25 ms. Parked, a goroutine
// costs one, but the thread that wakes it is any of the program's.
const restTime = 20 * time.Millisecond

// park waits for the set in the runtime's poller. That one asks the set whether
// there is anything, and a pressure trigger forgets its event when it is asked: a
// wake-up for nothing is that of a stall.
func (s *set) park() (n int, err error) {
	s.looks = 0
	if err := s.parked.Read(s.ready); err != nil {
		return 0, err
	}
	return s.found, s.failure
}

// look takes what there is, and reports whether there was anything.
func (s *set) look(uintptr) bool {
	if s.found, s.failure = s.there(); s.failure == unix.EINTR {
		s.failure = nil
	}
	s.looks++
	s.swallowed = s.found == 0 && s.looks > 1
	return s.found > 0 || s.swallowed || s.failure != nil
}

// hearPressure hears all pressure triggers that are waited for.
func (s *set) hearPressure() (woken signals.Wakes) {
	for _, e := range s.ears {
		if e == nil || !e.armed {
			continue
		}
		if _, is := e.of.(*pressure); is {
			woken |= s.listen(e, unix.EPOLLPRI)
		}
	}
	return woken
}

// pass lets the time pass where epoll itself fails, which no kernel is known to
// do: the loop goes on without notifications, and without spinning.
func (s *set) pass(left time.Duration) {
	const maxMillis = 1000
	millis := min(left.Milliseconds()+1, maxMillis)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.bellFD), Events: unix.POLLIN}}, int(max(millis, 0)))
}

// heard takes one event.
func (s *set) heard(event *unix.EpollEvent) signals.Wakes {
	switch slot := int(event.Fd); {
	case slot == bellSlot:
		_, _ = unix.Read(s.bellFD, s.count[:])
		return signals.ByRequest
	case slot < 0 || slot >= len(s.ears) || s.ears[slot] == nil || !s.ears[slot].armed:
		return 0 // the timer; or it was removed for what was heard just before
	default:
		return s.listen(s.ears[slot], event.Events)
	}
}

// listen hears one ear. It counts against its pace also when it was for nothing.
func (s *set) listen(e *handler, state uint32) signals.Wakes {
	e.armed = false
	e.pace.take(time.Now())
	woken, err := e.of.hear(e.fd, state)
	if err != nil {
		e.of.fail(err)
		return 0
	}
	return woken
}

// drain takes the count of an eventfd: how often it was rung is of no interest.
func (s *set) drain(fd int) error {
	switch _, err := unix.Read(fd, s.count[:]); err {
	case nil, unix.EAGAIN, unix.EINTR:
		return nil
	default:
		return fmt.Errorf("read an eventfd: %w", err)
	}
}
