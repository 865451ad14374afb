package watch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// priority is that of the thread in the class SCHED_FIFO.
const priority = 50

// statEvery is the interval between two reads of the pods' files, in samples.
const statEvery = 20

// exhausted is the available memory below which a node counts as exhausted: processors keep a few pages
// each.
const exhausted = 1 << 20

// Run is the role of the witness. It reads orders from standard input and writes true once it watches,
// and the report at the end.
func Run(out io.Writer) error {
	w := &witness{orders: bufio.NewReaderSize(os.Stdin, 1<<20), buffer: make([]byte, 64<<10), kills: -1, least: math.MaxInt64}
	line, err := w.orders.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &w.Input); err != nil {
		return err
	}
	if w.file, err = w.Gauge.Open(); err != nil {
		return err
	}
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	_ = unix.Mlockall(unix.MCL_CURRENT) // a busy machine may evict its pages; the report shows gaps
	w.seen.Realtime = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}, 0) == nil
	w.seen.Slots = make([]int64, 0, w.Slots)
	w.polls = []unix.PollFd{{Fd: int32(unix.Stdin), Events: unix.POLLIN}}
	if _, err := io.WriteString(out, "true\n"); err != nil {
		return err
	}
	if err := w.watch(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(&w.seen)
}

// witness is the state of the thread.
type witness struct {
	Input
	orders *bufio.Reader
	file   *os.File
	buffer []byte
	polls  []unix.PollFd // the input, then one for each process
	owners []Death       // of polls, from the second on
	pods   []watched
	kills  int64 // on the machine, at the begin; -1: unread

	cache int64 // of all pods
	least int64 // since the begin; before it, the maximum: any end is early then
	last  int64 // time of the sample before
	ended bool
	seen  Report
}

// watched is a pod with its open files.
type watched struct {
	id           int
	stat, events *os.File
	kills        int64
}

func (w *witness) watch() error {
	for !w.ended {
		pause := unix.NsecToTimespec(int64(w.Every)) // ppoll(2) changes it
		if _, err := unix.Ppoll(w.polls, &pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		now := gauge.Clock()
		if err := w.sample(now); err != nil {
			return err
		}
		if w.polls[0].Revents != 0 {
			if err := w.obey(now); err != nil {
				return err
			}
		}
	}
	w.readPods(gauge.Clock())
	return w.readMachine(false)
}

// sample reads the free memory, and the pods' files now and then and after a death.
func (w *witness) sample(now int64) error {
	died := w.noteDeaths(now)
	if died || w.seen.Samples%statEvery == 0 {
		w.readPods(now)
	}
	free, err := w.Gauge.Read(w.file, w.buffer)
	if err != nil {
		return err
	}
	if w.Gauge.Usage != "" {
		free = min(free+w.cache, w.Gauge.Total)
	}
	w.note(now, max(free, 0)) // a kernel may charge a few pages more than the limit
	return nil
}

func (w *witness) note(now, free int64) {
	w.seen.Samples++
	if w.seen.Begin == 0 {
		return
	}
	w.seen.MaxGap = max(w.seen.MaxGap, now-w.last)
	w.last = now
	w.least = min(w.least, free)
	w.seen.Least = w.least
	if free < w.Threshold && w.seen.Crossed == 0 {
		w.seen.Crossed = now
	}
	if free < exhausted && w.seen.Exhausted == 0 {
		w.seen.Exhausted = now
	}
	slot := int((now - w.seen.Begin) / int64(w.Slot))
	for len(w.seen.Slots) <= slot && len(w.seen.Slots) < w.Slots {
		w.seen.Slots = append(w.seen.Slots, free)
	}
	if slot < len(w.seen.Slots) {
		w.seen.Slots[slot] = min(w.seen.Slots[slot], free)
	}
}

// noteDeaths records ended processes, and stops watching them.
func (w *witness) noteDeaths(now int64) (died bool) {
	for i := 1; i < len(w.polls); i++ {
		if w.polls[i].Revents == 0 {
			continue
		}
		d := w.owners[i-1]
		d.At, d.Least = now, w.least
		w.seen.Deaths = append(w.seen.Deaths, d)
		_ = unix.Close(int(w.polls[i].Fd))
		end := len(w.polls) - 1
		w.polls[i], w.owners[i-1] = w.polls[end], w.owners[end-1]
		w.polls, w.owners = w.polls[:end], w.owners[:end-1]
		i--
		died = true
	}
	return died
}

// readPods sums the page cache of all pods and looks for kills. A pod that is gone has neither.
func (w *witness) readPods(now int64) {
	w.cache = 0
	for i := range w.pods {
		p := &w.pods[i]
		if text, err := gauge.Reread(p.stat, w.buffer); err == nil {
			inactive, _ := gauge.Value(text, "inactive_file")
			active, _ := gauge.Value(text, "active_file")
			w.cache += inactive + active
		}
		text, err := gauge.Reread(p.events, w.buffer)
		if err != nil {
			continue
		}
		if n, found := gauge.Value(text, "oom_kill"); found && n > p.kills {
			w.seen.Kills = append(w.seen.Kills, Kill{p.id, now, n - p.kills, w.least})
			p.kills = n
		}
	}
}

// readMachine counts the kernel's kills on the machine since the begin.
func (w *witness) readMachine(begin bool) error {
	if w.Kills == "" || !begin && w.kills < 0 {
		return nil
	}
	n, err := gauge.ValueOf(w.Kills, "oom_kill")
	if begin {
		w.kills = n
	} else {
		w.seen.KillsOnMachine = n - w.kills
	}
	return err
}

// obey reads the orders that have arrived. The end of the input is an error: the referee has died.
func (w *witness) obey(now int64) error {
	for {
		line, err := w.orders.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("read orders: %w", err)
		}
		var o Order
		if err := json.Unmarshal(bytes.TrimSpace(line), &o); err != nil {
			return fmt.Errorf("read orders: %w", err)
		}
		switch {
		case o.Pod != nil:
			if err := w.add(*o.Pod); err != nil {
				return err
			}
		case o.Begin:
			w.seen.Begin, w.last = now, now
			if err := w.readMachine(true); err != nil {
				return err
			}
		case o.End:
			w.ended = true
		}
		if w.orders.Buffered() == 0 {
			return nil
		}
	}
}

// add watches a pod. A process that has ended already counts as a death now.
func (w *witness) add(p Pod) error {
	one := watched{id: p.ID}
	var err error
	if one.stat, err = os.Open(p.Stat); err == nil {
		one.events, err = os.Open(p.Events)
	}
	if err != nil {
		return err
	}
	w.pods = append(w.pods, one)
	for _, pid := range p.PIDs {
		d := Death{Pod: p.ID, PID: pid}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			d.At, d.Least = gauge.Clock(), w.least
			w.seen.Deaths = append(w.seen.Deaths, d)
			continue
		}
		if err != nil {
			return fmt.Errorf("open process %d: %w", pid, err)
		}
		w.polls = append(w.polls, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		w.owners = append(w.owners, d)
	}
	return nil
}

// Timeout is the time that a witness has for its report.
const Timeout = 10 * time.Second
