package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// nodeKind is the part of the machine that acts as the node: its memory is sampled, and the
// kernel's kills in it count.
type nodeKind struct {
	name  string
	limit int64                                                 // of the sandbox, bytes
	args  []string                                              // of the agent
	setUp func(n *trial.Node) (restore func() error, err error) // before the pods are created
	gauge func(n *trial.Node) (gauge, error)                    // where usage is read
	kills func(n *trial.Node) (int64, error)                    // by the kernel, in total
}

// box is a cgroup with a limit, as in all tests with sandboxes.
var box = nodeKind{
	name: "cgroup", limit: fillLimit,
	setUp: func(*trial.Node) (func() error, error) { return func() error { return nil }, nil },
	gauge: func(n *trial.Node) (gauge, error) {
		if n.Version() == 2 {
			return gauge{File: filepath.Join(n.Node.Dir(sandbox.Unified), "memory.current"), Total: n.Limit(), stat: "inactive_file"}, nil
		}
		return gauge{File: filepath.Join(n.Node.Dir("memory"), "memory.usage_in_bytes"), Total: n.Limit(), stat: "total_inactive_file", Events: true}, nil
	},
	kills: func(n *trial.Node) (int64, error) { return n.OOMKills() },
}

func nodeKindNames() []string { return []string{box.name, machine.name} }

func nodeKindNamed(name string) (*nodeKind, error) {
	for _, a := range []*nodeKind{&box, &machine} {
		if a.name == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("-arena %s: use %s", name, strings.Join(nodeKindNames(), " or "))
}

// gauge describes where the node's memory usage is read.
type gauge struct {
	File   string
	Total  int64  // bytes
	Key    string // of the line with the available memory, in kB; empty: the file is a number, usage
	Events bool   // the file can be given to cgroup.event_control
	stat   string // the line of memory.stat beside it that counts as available although used
}

// used parses usage from the content of the file.
func (g *gauge) used(text []byte) (int64, error) {
	if g.Key == "" {
		return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	}
	free, err := firstNumber(text, g.Key)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", g.File, err)
	}
	return g.Total - free<<10, nil
}

// now returns usage and the part of it that counts as available. The agent adds that part to
// the free memory, so its line is higher by this amount.
func (g *gauge) now() (used, inactive int64, err error) {
	text, err := os.ReadFile(g.File)
	if err != nil {
		return 0, 0, err
	}
	if used, err = g.used(text); err != nil || g.stat == "" {
		return used, 0, err
	}
	inactive, err = numberAfter(filepath.Join(filepath.Dir(g.File), "memory.stat"), g.stat)
	return used, inactive, err
}
