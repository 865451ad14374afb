package hog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Open is what the referee writes into the gate before it opens it.
const Open = "open\n"

// errClosed reports that the referee ended before it opened the gate.
var errClosed = errors.New("the gate was never opened")

// process is the state of this hog.
type process struct {
	Program
	regions []region
	shared  *os.File // in memory
	file    *os.File // on the disk
	sum     byte     // of pages that were read
}

// Run performs the program of a file, and returns the exit code of the process. Without an exit in its
// steps it never returns: the process waits for its end.
func Run(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return failed(err)
	}
	p := &process{}
	if err := json.Unmarshal(text, &p.Program); err != nil {
		return failed(fmt.Errorf("%s: %w", file, err))
	}
	switch err := p.run(); {
	case errors.Is(err, errClosed):
		return 0
	case err != nil:
		return failed(err)
	}
	for { // a system call: without one the runtime would report a deadlock
		_, _ = unix.Ppoll(nil, nil, nil)
	}
}

// RunChild performs the steps on standard input, and returns the exit code of the process. If shared,
// descriptor 3 is the file in memory of the parent.
func RunChild(in io.Reader, shared bool) int {
	p := &process{}
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&p.Program); err != nil {
		return failed(err)
	}
	if shared {
		p.shared = os.NewFile(sharedDescriptor, "shared")
	}
	if err := p.perform(p.Steps); err != nil {
		return failed(err)
	}
	return 0
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "hog:", err)
	return 1
}

func (p *process) run() error {
	switch {
	case p.Serve != nil:
		return p.Serve.run(p.ready)
	case p.Beat != "":
		return beat(p.Beat, p.ready)
	}
	if err := p.perform(p.Before); err != nil {
		return err
	}
	if err := p.pass(); err != nil {
		return err
	}
	if len(p.Exec) > 0 {
		return p.execute()
	}
	return p.perform(p.Steps)
}

func (p *process) ready() error { return os.WriteFile(p.Ready, nil, 0o600) }

// pass reports that the process is ready, and waits for the gate.
func (p *process) pass() error {
	if p.Gate == "" {
		return nil
	}
	gate, err := os.Open(p.Gate)
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := p.ready(); err != nil {
		return err
	}
	for {
		err := unix.Flock(int(gate.Fd()), unix.LOCK_SH)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the gate: %w", err)
		}
	}
	text, err := io.ReadAll(gate)
	if err == nil && string(text) != Open {
		err = errClosed
	}
	return err
}

// execute becomes the real program.
func (p *process) execute() error {
	path, err := exec.LookPath(p.Exec[0])
	if err != nil {
		return err
	}
	if err := os.Chdir(p.Scratch); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", path, unix.Exec(path, p.Exec, os.Environ()))
}

func (p *process) perform(steps []Step) error {
	for i := range steps {
		if err := p.step(&steps[i]); err != nil {
			return fmt.Errorf("%s: %w", steps[i].Verb, err)
		}
	}
	return nil
}

func (p *process) step(s *Step) error {
	size, pace := s.Bytes, newPace(s.Rate)
	if s.AllBut {
		free, err := p.Gauge.Now()
		if err != nil {
			return err
		}
		size = free - s.Bytes
	}
	switch s.Verb {
	case "grow":
		return p.grow(size, pace)
	case "shared":
		return p.growShared(size, pace)
	case "release":
		return p.release(size)
	case "dirty":
		return p.dirty(size, pace)
	case "write":
		return p.write(size, pace)
	case "read":
		return p.read(s.Time, pace)
	case "map":
		return p.mapFile(size, pace)
	case "files":
		return p.makeFiles(s.Count)
	case "hold":
		sleep(s.Time)
	case "spin":
		spin(s.Time)
	case "snapshot":
		return snapshot(s.Time)
	case "spawn":
		return p.spawn(s)
	case "repeat":
		for range s.Count {
			if err := p.perform(s.Steps); err != nil {
				return err
			}
		}
	case "exit":
		os.Exit(s.Count)
	default:
		return errors.New("unknown verb")
	}
	return nil
}
