package sandbox

import (
	"context"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// TB is the part of testing.TB that fixtures use.
type TB interface {
	T
	Errorf(format string, args ...any)
	Cleanup(func())
}

// hogPatience bounds the commands of a hog in a fixture.
const hogPatience = time.Minute

// Make creates a node for a test. It checks the prerequisites and closes the node at the end of
// the test.
func Make(t TB, name string, limit int64, options ...Option) *Node {
	t.Helper()
	Need(t)
	n, err := NewNode(name, limit, options...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return n
}

// AwaitReaped has the test end only when process 1 has reaped what ran in the node. An orphan keeps its PID until
// then: two pods of 16,000 processes, one after the other, can exhaust the 32,768 PIDs of a machine.
func (n *Node) AwaitReaped(t TB) {
	count := filepath.Join(n.Dir("pids"), "pids.current")
	t.Cleanup(func() {
		_, err := endAll(n.dirs(), time.Now().Add(patience))
		left := int64(1)
		for until := time.Now().Add(hogPatience); err == nil && left > 0 && time.Now().Before(until); left, err = readNumber(count) {
			_, _ = unix.Poll(nil, 10) // the kernel sends no event
		}
		if err != nil || left > 0 {
			t.Errorf("%d processes of the node not reaped by process 1 within %s, error %v", left, hogPatience, err)
		}
	})
}

// Run starts a hog in the pod's container for a test and executes the commands in sequence.
func (n *Node) Run(t TB, p *Pod, container string, commands ...string) *Hog {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hogPatience)
	defer cancel()
	h, err := n.StartHog(ctx, p, container)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = h.Close() })
	for _, c := range commands {
		if _, err := h.Do(ctx, c); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return h
}
