package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// machine is the whole machine, for contenders that watch nothing smaller. It must be
// expendable: a virtual machine.
var machine = nodeKind{
	name: "machine", limit: sandbox.MaxLimit, args: []string{"--node-cgroup=/"},
	setUp: enterMachine,
	gauge: func(*trial.Node) (gauge, error) {
		total, err := memory("MemTotal:")
		return gauge{File: "/proc/meminfo", Key: "MemAvailable:", Total: total}, err
	},
	kills: func(*trial.Node) (int64, error) { return sandbox.MachineOOMKills() },
}

// enterMachine puts the node's pods at the place of a machine's pods.
func enterMachine(n *trial.Node) (restore func() error, err error) {
	total, err := memory("MemTotal:")
	if err != nil {
		return nil, err
	}
	if n.Version() != 2 || total > sandbox.MaxLimit {
		return nil, fmt.Errorf("cgroup v%d, %d MiB: the machine itself is filled, so it must be a virtual one with cgroup v2 and at most %d MiB: boot one with bin/vm",
			n.Version(), total/mib, int64(sandbox.MaxLimit)/mib)
	}
	theirs := filepath.Join(n.Root(), "kubepods")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount(filepath.Join(n.Node.Dir(sandbox.Unified), "kubepods"), theirs, "", unix.MS_BIND, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("mount the node's pods at %s: %w", theirs, err), unix.Rmdir(theirs))
	}
	return func() error { return errors.Join(unix.Unmount(theirs, unix.MNT_DETACH), unix.Rmdir(theirs)) }, nil
}

// memory returns a line of /proc/meminfo in bytes.
func memory(key string) (int64, error) {
	kib, err := numberAfter("/proc/meminfo", key)
	return kib << 10, err
}

// numberAfter returns the first number of the line that begins with a word.
func numberAfter(file, word string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := firstNumber(text, word)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return n, nil
}

func firstNumber(text []byte, word string) (int64, error) {
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == word {
			return strconv.ParseInt(string(fields[1]), 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %s", word)
}

// warmth returns the amount of memory to touch before rates are measured: the requirement of
// the fills, if the machine has twice that.
func warmth() (int64, error) {
	free, err := memory("MemAvailable:")
	return min(1800*mib, free/2), err
}
