package sandbox

import (
	"context"
	"time"
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
