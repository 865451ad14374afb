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

// A sight is what a witness is to watch.
type sight struct {
	Gauge gauge
	Near  int64         // usage from which on the rate is taken
	Line  int64         // usage at which the threshold is crossed
	PID   int           // whose end is the end
	Every time.Duration // between two readings
}

// A testimony is what a witness has seen, all by one clock, that of the
// decision log. A zero time is something that it has not seen.
type testimony struct {
	Crossed, Notified, Exhausted, Dead time.Time

	Rate     float64       // between near and the crossing, bytes per second
	Unsure   time.Duration // between the readings around the crossing
	Peak     int64         // most usage ever read
	Ordinary bool          // it ran without priority, so its times are late where CPUs are busy
}

// A witness is a process of its own at real-time priority with one thread that
// neither allocates nor collects garbage while it watches: so its times are the
// kernel's, and not those of a busy program's scheduler. A witness of every
// 100 µs takes about a twentieth of a core from those who race, alike.
type witness struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

// watch starts a witness, and returns once it watches.
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

// await returns the testimony, after the end of what was watched.
func (w *witness) await() (t testimony, err error) {
	if err := w.out.Decode(&t); err != nil {
		return t, fmt.Errorf("hear the witness: %w", err)
	}
	return t, nil
}

// close ends a witness wherever it is; it may have ended itself.
func (w *witness) close() error {
	_ = w.in.Close() // its end of input, at which it ends
	return w.cmd.Wait()
}

// testify is the witness's side: it reads a sight and says what it sees.
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

// eyes are what a witness sees with.
type eyes struct {
	sight
	file  *os.File
	polls []unix.PollFd // the end, the driver, the kernel's notification
	text  []byte

	last, near reading
	seen       testimony
}

// A reading is usage at a time.
type reading struct {
	at   time.Time
	used int64
}

// Places in eyes.polls. The notification exists on cgroup v1 only, and once
// seen is looked for no more.
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

// arm asks a cgroup v1 kernel to notify of the crossing. The event lasts as
// long as its eventfd.
func (e *eyes) arm() (int, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, err
	}
	control := filepath.Join(filepath.Dir(e.Gauge.File), "cgroup.event_control")
	return event, os.WriteFile(control, fmt.Appendf(nil, "%d %d %d", event, e.file.Fd(), e.Line), 0)
}

// watch reads usage again and again until the end.
func (e *eyes) watch() error {
	for {
		pause := unix.NsecToTimespec(int64(e.Every)) // ppoll(2) leaves in it what was left
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

// read takes one reading, and notes what it means.
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

// crumbs are left when memory is exhausted: each CPU keeps up to 64 pages in
// stock.
const crumbs = 1 * mib

// between is when usage was at the line, if it grew steadily from one reading
// to the next.
func between(before, after reading, line int64) time.Time {
	part := float64(line-before.used) / float64(after.used-before.used)
	return before.at.Add(time.Duration(part * float64(after.at.Sub(before.at))))
}
