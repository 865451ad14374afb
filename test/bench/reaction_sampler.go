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

// samplerInput is the input of a sampler.
type samplerInput struct {
	Gauge gauge
	Near  int64         // usage at which measuring the rate begins
	Line  int64         // usage at which the threshold is crossed
	PID   int           // the process to watch; its end ends the race
	Every time.Duration // between two readings
}

// observation is the result of a sampler, by the clock of the decision log. A zero time was not
// observed.
type observation struct {
	Crossed, Notified, Exhausted, Dead time.Time

	Rate     float64       // between near and the crossing, bytes per second
	Unsure   time.Duration // between the readings around the crossing
	Peak     int64         // maximum of the readings
	Ordinary bool          // ran without priority, so its times are late on busy CPUs
}

// sampler is a separate process at real-time priority. Its only thread neither allocates nor
// collects garbage while it samples. So its times are the kernel's, not those of a busy
// program's scheduler. At an interval of 100 µs it takes about a twentieth of a core, from all
// contenders alike.
type sampler struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

// watch starts a sampler and returns after its first output.
func watch(s samplerInput) (w *sampler, err error) {
	w = &sampler{}
	if w.cmd, w.in, w.out, err = startRole(roleSampler, s); err != nil {
		return nil, err
	}
	var ready bool
	if err := w.out.Decode(&ready); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sampler: %w", err), w.close())
	}
	return w, nil
}

// await returns the observation after the end of the watched process. Returns an error if the
// sampler ends without one.
func (w *sampler) await() (t observation, err error) {
	if err := w.out.Decode(&t); err != nil {
		return t, fmt.Errorf("read the output of the sampler: %w", err)
	}
	return t, nil
}

// close ends a sampler in any state, even after its end.
func (w *sampler) close() error {
	_ = w.in.Close() // it ends at the end of its input
	return w.cmd.Wait()
}

// runSampler is the role of the sampler: it reads its input and writes an observation.
func runSampler(in io.Reader, out io.Writer) error {
	var s samplerInput
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	e, err := newSampler(s)
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

// samplerState is the state of a sampler.
type samplerState struct {
	samplerInput
	file  *os.File
	polls []unix.PollFd // the end, the driver, the kernel's notification
	text  []byte

	last, near reading
	seen       observation
}

// reading is usage at a time.
type reading struct {
	at   time.Time
	used int64
}

// Indexes of samplerState.polls. The notification exists on cgroup v1 only, and is removed once
// received.
const (
	theEnd = iota
	theDriver
	theNotification
)

func newSampler(s samplerInput) (*samplerState, error) {
	e := &samplerState{samplerInput: s, text: make([]byte, 4096)}
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
func (e *samplerState) arm() (int, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, err
	}
	control := filepath.Join(filepath.Dir(e.Gauge.File), "cgroup.event_control")
	return event, os.WriteFile(control, fmt.Appendf(nil, "%d %d %d", event, e.file.Fd(), e.Line), 0)
}

// watch reads usage repeatedly until the end.
func (e *samplerState) watch() error {
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
			return errors.New("the driver has ended")
		}
	}
}

// read takes one reading and records its consequences.
func (e *samplerState) read(at time.Time) error {
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

func (e *samplerState) note(now reading) {
	before := e.last
	e.last = now
	e.seen.Peak = max(e.seen.Peak, now.used)
	if now.used >= e.Near && e.near.at.IsZero() {
		e.near = now
	}
	if now.used >= e.Gauge.Total-exhaustedRest && e.seen.Exhausted.IsZero() {
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

// exhaustedRest is the memory that remains at exhaustion: each CPU caches up to 64 pages.
const exhaustedRest = 1 * mib

// between returns the time of usage at the line, assuming steady growth between the two
// readings.
func between(before, after reading, line int64) time.Time {
	part := float64(line-before.used) / float64(after.used-before.used)
	return before.at.Add(time.Duration(part * float64(after.at.Sub(before.at))))
}
