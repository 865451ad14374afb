package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a measured program. Once it has received everything, it writes the address of its
// statistics to its standard output.
type process struct {
	cmd     *exec.Cmd
	pid     int
	address string // of its statistics
	ended   chan error
}

// seeing is the maximum time for a program to receive everything.
const seeing = 15 * time.Minute

// start starts a program and waits until it has received everything. Its standard error goes to
// the file log.
func start(ctx context.Context, log string, program string, args ...string) (*process, error) {
	complaints, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer complaints.Close()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan error, 1)}
	p.cmd.Stderr = complaints
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w: build it with make bench-lifecycle", program, err)
	}
	p.pid = p.cmd.Process.Pid
	ready := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if address, is := strings.CutPrefix(lines.Text(), "ready "); is {
				ready <- address
			}
		}
		p.ended <- p.cmd.Wait()
	}()
	select {
	case p.address = <-ready:
		return p, nil
	case err := <-p.ended:
		p.ended <- err
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%s %v ended before it had received everything: %v\n%s", program, args, err, text)
	case <-time.After(seeing):
		err = fmt.Errorf("%s %v did not receive everything within %v", program, args, seeing)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.stop()
	return nil, err
}

// stop kills the process and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// reading is the consumption of a process so far.
type reading struct {
	at       time.Time
	cpu      time.Duration // in nanoseconds, of all threads, including ended ones
	memory   memory
	resident int64 // bytes
}

// memory is the part of runtime.MemStats used here.
type memory struct {
	TotalAlloc, Mallocs, HeapAlloc uint64
	NumGC                          uint32
}

// variables is the expvar output of a process.
type variables struct {
	Memstats memory `json:"memstats"`
}

// read returns the consumption of the process so far.
func (p *process) read() (reading, error) {
	var v variables
	r := reading{at: time.Now()}
	answer, err := http.Get("http://" + p.address + "/debug/vars")
	if err != nil {
		return r, fmt.Errorf("read the allocations of process %d: %w", p.pid, err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		return r, fmt.Errorf("parse the statistics of process %d: %w", p.pid, err)
	}
	r.memory = v.Memstats
	if r.cpu, err = spent(p.pid); err != nil {
		return r, err
	}
	r.resident, err = resident(p.pid)
	return r, err
}

// spent returns the processor time of a process so far.
func spent(pid int) (time.Duration, error) {
	var t unix.Timespec
	// The process's own clock, by the encoding of clock_getcpuclockid(3).
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

func resident(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/statm", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("parse %s: %w", name, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// collect makes the process collect its garbage and return free memory to the kernel.
func (p *process) collect() error {
	answer, err := http.Post("http://"+p.address+"/debug/gc", "", nil)
	if err != nil {
		return fmt.Errorf("have process %d collect garbage: %w", p.pid, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New("request a garbage collection: " + answer.Status)
	}
	return nil
}
