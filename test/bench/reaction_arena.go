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

// An arena is what plays the node: whose memory is watched, and whose kills by
// the kernel count.
type arena struct {
	name  string
	limit int64                                               // of the sandbox, bytes
	args  []string                                            // of the agent
	enter func(n *trial.Node) (leave func() error, err error) // before the pods are made
	gauge func(n *trial.Node) (gauge, error)                  // where usage is read
	kills func(n *trial.Node) (int64, error)                  // of the kernel, ever
}

// box is a cgroup with a limit, as everywhere in these tests.
var box = arena{
	name: "cgroup", limit: fillLimit,
	enter: func(*trial.Node) (func() error, error) { return func() error { return nil }, nil },
	gauge: func(n *trial.Node) (gauge, error) {
		if n.Version() == 2 {
			return gauge{File: filepath.Join(n.Node.Dir(sandbox.Unified), "memory.current"), Total: n.Limit(), stat: "inactive_file"}, nil
		}
		return gauge{File: filepath.Join(n.Node.Dir("memory"), "memory.usage_in_bytes"), Total: n.Limit(), stat: "total_inactive_file", Events: true}, nil
	},
	kills: func(n *trial.Node) (int64, error) { return n.OOMKills() },
}

func arenaNames() []string { return []string{box.name, machine.name} }

func arenaNamed(name string) (*arena, error) {
	for _, a := range []*arena{&box, &machine} {
		if a.name == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("-arena %s: use %s", name, strings.Join(arenaNames(), " or "))
}

// A gauge tells how much of the node's memory is in use.
type gauge struct {
	File   string
	Total  int64  // bytes
	Key    string // of the line that tells what is available, in kB; empty: the file is a number, usage
	Events bool   // the file can be given to cgroup.event_control
	stat   string // the line of memory.stat beside it that is available though used
}

// used reads usage from what the file holds.
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

// now reads usage and the part of it that counts as available: the agent adds
// that to what is free, so the line it waits for lies as much higher.
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
