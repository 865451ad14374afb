package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// sight is the input of a witness.
type sight struct {
	Gauge gauge
	Near  int64         // usage at which measuring the rate begins
	Line  int64         // usage at which the threshold is crossed
	PID   int           // the process to watch; its end ends the race
	Every time.Duration // between two readings
}

// testimony is a witness's observations, by the clock of the decision log. A zero time was not
// observed.
type testimony struct {
	Crossed, Notified, Exhausted, Dead time.Time

	Rate     float64       // between near and the crossing, bytes per second
	Unsure   time.Duration // between the readings around the crossing
	Peak     int64         // maximum of the readings
	Ordinary bool          // ran without priority, so its times are late on busy CPUs
}

// witness is a separate process at real-time priority. Its only thread neither allocates nor
// collects garbage while it watches. So its times are the kernel's, not those of a busy
// program's scheduler. At an interval of 100 µs it takes about a twentieth of a core, from all
// contenders alike.
type witness struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

// watch starts a witness and returns once it watches.
func watch(s sight) (w *witness, err error) {
	w = &witness{}
	if w.cmd, w.in, w.out, err = startRole(roleWitness, s); err != nil {
		return nil, err
	}
	var ready bool
	if err := w.out.Decode(&ready); err != nil {
		return nil, errors.Join(fmt.Errorf("start the witness: %w", err), w.close())
	}
	return w, nil
}

// await returns the testimony after the watched process has ended. Returns an error if the
// witness ends without one.
func (w *witness) await() (t testimony, err error) {
	if err := w.out.Decode(&t); err != nil {
		return t, fmt.Errorf("hear the witness: %w", err)
	}
	return t, nil
}

// close ends a witness in any state; it may have ended already.
func (w *witness) close() error {
	_ = w.in.Close() // it ends at the end of its input
	return w.cmd.Wait()
}

// testify is the witness's side: it reads a sight and writes a testimony.
func testify(in io.Reader, out io.Writer) error {
	var s sight
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	e, err := openEyes(s)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	e.seen.Ordinary = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0) != nil
	if _, err := io.WriteString(out, "true\n"); err != nil {
		return err
	}
	if err := e.watch(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(&e.seen)
}

// eyes is the state of a witness.
type eyes struct {
	sight
	file  *os.File
	polls []unix.PollFd // the end, the driver, the kernel's notification
	text  []byte

	last, near reading
	seen       testimony
}

// reading is usage at a time.
type reading struct {
	at   time.Time
	used int64
}

// Indexes of eyes.polls. The notification exists on cgroup v1 only, and is removed once
// received.
const (
	theEnd = iota
	theDriver
	theNotification
)

func openEyes(s sight) (*eyes, error) {
	e := &eyes{sight: s, text: make([]byte, 4096)}
	var err error
	if e.file, err = os.Open(s.Gauge.File); err != nil {
		return nil, err
	}
	end, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", s.PID, err)
	}
	e.polls = []unix.PollFd{{Fd: int32(end), Events: unix.POLLIN}, {Fd: int32(unix.Stdin), Events: unix.POLLRDHUP}}
	if s.Gauge.Events {
		event, err := e.arm()
		if err != nil {
			return nil, fmt.Errorf("arm the kernel's own notification at %d bytes: %w", s.Line, err)
		}
		e.polls = append(e.polls, unix.PollFd{Fd: int32(event), Events: unix.POLLIN})
	}
	return e, nil
}

// arm registers the crossing with a cgroup v1 kernel. The event lasts as long as its eventfd.
func (e *eyes) arm() (int, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, err
	}
	control := filepath.Join(filepath.Dir(e.Gauge.File), "cgroup.event_control")
	return event, os.WriteFile(control, fmt.Appendf(nil, "%d %d %d", event, e.file.Fd(), e.Line), 0)
}

// watch reads usage repeatedly until the end.
func (e *eyes) watch() error {
	for {
		pause := unix.NsecToTimespec(int64(e.Every)) // ppoll(2) changes it to the remaining time
		_, err := unix.Ppoll(e.polls, &pause, nil)
		now := time.Now()
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		if len(e.polls) > theNotification && e.polls[theNotification].Revents != 0 {
			e.seen.Notified = now
			e.polls = e.polls[:theNotification]
		}
		if err := e.read(now); err != nil {
			return err
		}
		if e.polls[theEnd].Revents != 0 {
			e.seen.Dead = now
			return nil
		}
		if e.polls[theDriver].Revents != 0 {
			return errors.New("nobody listens")
		}
	}
}

// read takes one reading and records its consequences.
func (e *eyes) read(at time.Time) error {
	n, err := e.file.ReadAt(e.text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	used, err := e.Gauge.used(e.text[:n])
	if err != nil {
		return err
	}
	e.note(reading{at, used})
	return nil
}

func (e *eyes) note(now reading) {
	before := e.last
	e.last = now
	e.seen.Peak = max(e.seen.Peak, now.used)
	if now.used >= e.Near && e.near.at.IsZero() {
		e.near = now
	}
	if now.used >= e.Gauge.Total-crumbs && e.seen.Exhausted.IsZero() {
		e.seen.Exhausted = now.at
	}
	if now.used <= e.Line || !e.seen.Crossed.IsZero() || before.at.IsZero() {
		return
	}
	e.seen.Unsure = now.at.Sub(before.at)
	e.seen.Crossed = between(before, now, e.Line)
	if over := e.seen.Crossed.Sub(e.near.at); over > 0 {
		e.seen.Rate = float64(e.Line-e.near.used) / over.Seconds()
	}
}

// crumbs is the memory that remains at exhaustion: each CPU caches up to 64 pages.
const crumbs = 1 * mib

// between returns the time of usage at the line, assuming steady growth between the two
// readings.
func between(before, after reading, line int64) time.Time {
	part := float64(line-before.used) / float64(after.used-before.used)
	return before.at.Add(time.Duration(part * float64(after.at.Sub(before.at))))
}
