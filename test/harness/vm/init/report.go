package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// serialLine is the machine's second serial line: the first is the kernel's console.
const serialLine = "/dev/ttyS1"

// openLine opens the serial line of the report in raw mode.
func openLine() (*os.File, error) {
	f, err := os.OpenFile(serialLine, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	term, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		term.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, term)
	}
	if err != nil {
		return nil, fmt.Errorf("set up %s: %w", serialLine, err)
	}
	return f, nil
}

// reporter writes the report. Its methods are safe for concurrent use.
type reporter struct {
	mu  sync.Mutex
	out io.Writer

	// start starts a command, and returns the wait for its end and how to force it.
	start func(*exec.Cmd) (ended func() (int, string, error), kill func(), err error)
	// endAll ends the processes that a command left; nil in a machine with others.
	endAll func() error
}

func (r *reporter) send(l *wire.Line) error {
	text, err := l.Encode()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(text); err != nil {
		return fmt.Errorf("report %s: %w", l.Kind, err)
	}
	return nil
}

// pass reports the output of a command until no process has the stream open.
func (r *reporter) pass(command, stream int, in io.ReadCloser) error {
	defer in.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if err := r.send(&wire.Line{Kind: wire.Printed, Command: command, Stream: stream, Text: buf[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end of the stream
		}
	}
}
