package hog

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var page = int64(os.Getpagesize())

// pace spreads bytes over time against absolute deadlines.
type pace struct {
	rate  int64 // bytes per second; 0: unlimited
	begin time.Time
}

func newPace(rate int64) pace { return pace{rate, time.Now()} }

// step returns the bytes between two reads of the clock: those of about a millisecond, in whole pages.
func (p pace) step() int64 {
	if p.rate == 0 {
		return 4 << 20
	}
	return max(p.rate/1000/page*page, page)
}

// wait waits until the bytes are due.
func (p pace) wait(done int64) {
	if p.rate == 0 {
		return
	}
	due := time.Duration(float64(done) / float64(p.rate) * float64(time.Second))
	sleepUntil(p.begin.Add(due))
}

// sleepUntil blocks the thread, which is more exact than a timer of the runtime.
func sleepUntil(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) {
		pause := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&pause, nil) // after an interrupt the clock decides
	}
}

func sleep(d time.Duration) { sleepUntil(time.Now().Add(d)) }
