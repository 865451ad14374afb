package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// The plain loop is an afternoon's work. Every 100 ms it reads usage. Above the line it sends
// SIGKILL to all processes of the pod with the largest process. It considers no rates, and no
// order but that of size.

// loopPeriod is the interval of the plain loop.
const loopPeriod = 100 * time.Millisecond

// loopOrders is the input of the plain loop.
type loopOrders struct {
	Gauge gauge
	Line  int64  // usage above which it kills
	Pods  string // directory with the pods' cgroups somewhere below
}

// loopKill is the loop's report of a kill.
type loopKill struct {
	Pod     string // directory
	Checked time.Time
	Signal  time.Time
}

func loopAndKill(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o loopOrders
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	ended := make(chan error)
	go func() {
		_, err := lines.ReadByte()
		ended <- err
	}()
	tick := time.NewTicker(loopPeriod)
	defer tick.Stop()
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(true); err != nil {
		return err
	}
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
			if err := o.check(time.Now(), encoder); err != nil {
				return err
			}
		}
	}
}

func (o *loopOrders) check(at time.Time, encoder *json.Encoder) error {
	text, err := os.ReadFile(o.Gauge.File)
	if err != nil {
		return err
	}
	used, err := o.Gauge.used(text)
	if err != nil || used <= o.Line {
		return err
	}
	pod, pids, err := o.largest()
	if err != nil || pod == "" {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d of %s: %w", pid, pod, err)
		}
	}
	return encoder.Encode(loopKill{pod, at, time.Now()})
}

// largest returns the pod of the process with the most resident memory, and the pod's
// processes. A process is in a container's directory, one below its pod's.
func (o *loopOrders) largest() (pod string, pids []int, err error) {
	most := int64(0)
	members := make(map[string][]int)
	err = filepath.WalkDir(o.Pods, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			parent := filepath.Dir(dir)
			members[parent] = append(members[parent], pid)
			if size := resident(pid); size > most {
				most, pod = size, parent
			}
		}
		return nil
	})
	return pod, members[pod], err
}

// resident returns a process's memory in pages; 0 for an ended one.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// looper is the plain loop as a racer.
type looper struct {
	cmd     *exec.Cmd
	in      io.Closer
	decoder *json.Decoder
}

func startLoop(_ context.Context, s *env) (racer, error) {
	controller := "memory"
	if s.Version() == 2 {
		controller = sandbox.Unified
	}
	cmd, in, decoder, err := startRole(roleLoop, loopOrders{s.gauge, s.line, s.Node.Node.Dir(controller)})
	if err != nil {
		return nil, err
	}
	l := looper{cmd, in, decoder}
	var ready bool
	if err := decoder.Decode(&ready); err != nil {
		return nil, errors.Join(fmt.Errorf("start the loop: %w", err), in.Close(), cmd.Wait())
	}
	return l, nil
}

func (l looper) pid() int { return l.cmd.Process.Pid }

// finish returns the first kill. The dead pods show the others.
func (l looper) finish(context.Context) (d kill, err error) {
	_ = l.in.Close()
	for {
		var k loopKill
		switch err := l.decoder.Decode(&k); {
		case errors.Is(err, io.EOF):
			return d, l.cmd.Wait()
		case err != nil:
			return d, errors.Join(fmt.Errorf("read the output of the loop: %w", err), l.cmd.Wait())
		case d.victim == "":
			name := strings.TrimPrefix(filepath.Base(k.Pod), "poduid-")
			d = kill{victim: "default/" + name, check: "periodic", checked: k.Checked, signal: k.Signal}
		}
	}
}
