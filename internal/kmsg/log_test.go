package kmsg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// pipe is a log whose records are errors and texts.
type pipe struct {
	next     func() (string, error)
	closed   bool
	deadline time.Time
}

func (p *pipe) Read(b []byte) (int, error) {
	text, err := p.next()
	return copy(b, text), err
}

func (p *pipe) Close() error { p.closed = true; return nil }

func (p *pipe) SetReadDeadline(t time.Time) error { p.deadline = t; return nil }

func TestLog_ReportsLostRecords(t *testing.T) {
	results := []error{nil, &os.PathError{Op: "read", Path: Device, Err: syscall.EPIPE}, nil, &os.PathError{Op: "read", Path: Device, Err: syscall.EINVAL}, os.ErrDeadlineExceeded, io.EOF}
	want := []error{nil, ErrLost, nil, ErrLost, ErrTimeout, io.EOF}
	i := -1
	p := &pipe{next: func() (string, error) { i++; return "6,1,2,-;text", results[i] }}
	l := newLog(p)
	for n := range want {
		deadline := time.Now().Add(time.Duration(n+1) * time.Hour)
		record, err := l.Next(deadline)
		if !errors.Is(err, want[n]) || err == nil && string(record) != "6,1,2,-;text" || !p.deadline.Equal(deadline) {
			t.Errorf("call %d: %q, %v, want %v", n, record, err, want[n])
		}
	}
}

// TestLog_ReadsAfterDeadline checks that a record that can be read is returned whatever the deadline is.
func TestLog_ReadsAfterDeadline(t *testing.T) {
	p := &pipe{}
	p.next = func() (string, error) {
		if !p.deadline.After(time.Now()) { // as a file
			return "", os.ErrDeadlineExceeded
		}
		return "6,1,2,-;text", nil
	}
	synctest.Test(t, func(t *testing.T) {
		if record, err := newLog(p).Next(time.Now().Add(-time.Hour)); err != nil || len(record) == 0 {
			t.Errorf("%q, %v", record, err)
		}
	})
}

// TestLog_BoundsRecordsPerSecond checks that a flood of records is read at a bounded rate, and that Close
// ends the pause.
func TestLog_BoundsRecordsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{next: func() (string, error) { return "6,1,2,-;flood", nil }}
		l := newLog(p)
		began := time.Now()
		for range 5 * maxPerSecond {
			if _, err := l.Next(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("%d records within %s", 5*maxPerSecond, took)
		}
		go func() {
			<-time.After(100 * time.Millisecond)
			_ = l.Close()
		}()
		began = time.Now()
		if _, err := l.Next(time.Time{}); !errors.Is(err, os.ErrClosed) || time.Since(began) > 200*time.Millisecond || !p.closed {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestOpen_NamesMissingRight(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kmsg")
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), "agent.kernelLog") || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	for _, err := range []error{syscall.EPERM, syscall.EACCES} {
		if got := remedy(err); !strings.Contains(got, "privileged") {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// TestLog_ReadsKernelsLog reads the log of this machine: only new records, without a poll, until Close.
func TestLog_ReadsKernelsLog(t *testing.T) {
	l, err := Open(Device)
	sandbox.Demand(t, "the kernel's log can not be read", err)
	for err == nil { // others write to the log, too
		_, err = l.Next(time.Now().Add(-time.Second))
	}
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("after the deadline: %v", err)
	}
	// Without the newline, the kernel would wait for the rest of the line.
	mark := fmt.Sprintf("plimsoll test of process %d at %d", os.Getpid(), time.Now().UnixNano())
	if err := os.WriteFile(Device, []byte(mark+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	for {
		record, err := l.Next(time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(record), mark) {
			break
		}
	}
	ended := make(chan error)
	go func() {
		for {
			if _, err := l.Next(time.Time{}); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Close does not end the wait")
	}
}
