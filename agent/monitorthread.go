package agent

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// monitorThread runs a [killMonitor] while the loop's thread is busy with a kill. It is a prepared
// thread that waits in system calls only and has priority over the loop's. Starting a goroutine,
// or waking one that waits for a channel, takes a thread of the Go runtime without real-time
// class. Beside 16,000 exiting processes that took 0.6 s.
type monitorThread struct {
	begin, end, done event
	check            func(now time.Time) // set before begin; nil ends the thread
	others           otherThreads        // raised at the begin of a kill
}

// newMonitorThread starts a thread with priority over the given one. [monitorThread.Close] ends it.
func newMonitorThread(thread *Thread) (*monitorThread, error) {
	l := &monitorThread{}
	var errs [3]error
	for i, b := range []*event{&l.begin, &l.end, &l.done} {
		*b, errs[i] = newEvent()
	}
	if err := errors.Join(errs[:]...); err != nil {
		l.closeEvents()
		return nil, err
	}
	l.others.permitted = thread != nil && thread.realtime != nil
	go l.run(thread.ahead())
	return l, nil
}

func (l *monitorThread) run(thread *Thread) {
	thread.Hurry()
	defer thread.Rest()
	for l.begin.wait(-1); l.check != nil; l.begin.wait(-1) {
		l.others.raise()
		for !l.end.wait(attendPace) {
			now := time.Now()
			l.check(now)
			l.others.update(true, now)
		}
		l.done.ring()
	}
	l.done.ring()
}

// during calls f, and check every [attendPace] until f has returned. The two run concurrently and
// must share no unprotected data. The process's other threads have real-time class from then
// until [monitorThread.lowerOthers]. Without a thread a goroutine calls check.
func (l *monitorThread) during(f func(), check func(now time.Time)) {
	if l == nil {
		runBeside(f, check)
		return
	}
	l.check = check
	l.begin.ring()
	f()
	l.end.ring()
	l.done.wait(-1)
}

// lowerOthers reverts the class of all other threads, when no kill waits for processes, or after [maxRaised].
// The loop calls it after every check.
func (l *monitorThread) lowerOthers(exiting bool) {
	if l != nil {
		l.others.update(exiting, time.Now())
	}
}

// runBeside implements during with a goroutine.
func runBeside(f func(), check func(now time.Time)) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(attendPace)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case now := <-tick.C:
				check(now)
			}
		}
	}()
	f()
	close(over)
	<-done
}

// Close ends the thread.
func (l *monitorThread) Close() {
	if l == nil {
		return
	}
	l.check = nil
	l.begin.ring()
	l.done.wait(-1)
	l.others.update(false, time.Now())
	l.closeEvents()
}

func (l *monitorThread) closeEvents() {
	for _, b := range []event{l.begin, l.end, l.done} {
		_ = unix.Close(int(b))
	}
}

// event wakes a waiting thread: an eventfd(2) with one writer and one reader.
type event int

func newEvent() (event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return event(fd), err
}

func (b event) ring() {
	_, _ = unix.Write(int(b), []byte{1, 7: 0}) // fails only after 2⁶⁴ writes without a read
}

// wait waits up to d for a ring, without limit if d is negative, and reports whether there was
// one.
func (b event) wait(d time.Duration) (rung bool) {
	var until *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		until = &t
	}
	for {
		_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(b), Events: unix.POLLIN}}, until, nil)
		// Read whatever ended the wait: a ring right after the timeout counts, too.
		var count [8]byte
		if _, err := unix.Read(int(b), count[:]); err == nil || until != nil {
			return err == nil
		}
	}
}
