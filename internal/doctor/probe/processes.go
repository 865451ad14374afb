package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// processes lists the host's processes, with the command lines of those with relevant flags. It
// omits processes that end meanwhile, and those of a pod with a PID namespace of its own.
func (o *NodeOptions) processes() doctor.Fact[[]doctor.Process] {
	all, err := processes(o.ProcRoot)
	if err != nil {
		return doctor.Unknown[[]doctor.Process](err.Error())
	}
	host := slices.ContainsFunc(all, func(p doctor.Process) bool { return p.PID == 2 && p.Name == kernelThreads })
	if !host { // the visible processes are returned nevertheless
		return doctor.Fact[[]doctor.Process]{Value: all, Cause: o.ProcRoot + " shows the processes of a container, or hides those of others"}
	}
	return doctor.Known(all)
}

// kernelThreads is the parent of the kernel's threads: process 2 of every machine, and of no
// container.
const kernelThreads = "kthreadd"

// withArgs are the names of processes with relevant command lines.
var withArgs = []string{"plimsoll", kubeletName}

func processes(procRoot string) (all []doctor.Process, err error) {
	dir, err := os.Open(procRoot)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the processes in %s: %w", procRoot, err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(procRoot, name, "comm"))
		if err != nil || nested(procRoot, name) {
			continue
		}
		p := doctor.Process{PID: pid, Name: strings.TrimSpace(string(comm))}
		if slices.Contains(withArgs, p.Name) {
			p.Args = withNodeCgroup(procRoot, name, args(procRoot, name))
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("list the processes in %s: there are none: it is not the /proc of a host", procRoot)
	}
	return all, nil
}

// nested reports whether a process is in a PID namespace below the one of procRoot, like those of a
// pod that does not share the node's namespace. Such a process signals no process outside, and
// chooses its own name. It must neither disarm the agent by that name, nor count as the kubelet,
// nor have the agent read one of its files.
func nested(procRoot, pid string) bool {
	text, err := os.ReadFile(filepath.Join(procRoot, pid, "status"))
	if err != nil {
		return false // it has ended
	}
	for line := range bytes.Lines(text) {
		if pids, is := bytes.CutPrefix(line, []byte("NSpid:")); is { // one for each namespace
			return len(bytes.Fields(pids)) > 1
		}
	}
	return false
}

// args returns a process's command line; empty once it has ended.
func args(procRoot, pid string) (all []string) {
	text, err := os.ReadFile(filepath.Join(procRoot, pid, "cmdline"))
	if err != nil {
		return nil
	}
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		all = append(all, string(arg))
	}
	return all
}

// withNodeCgroup adds the node cgroup of an agent's configuration file to its command line, if the
// file can be read: agents of nested nodes do not conflict.
func withNodeCgroup(procRoot, pid string, args []string) []string {
	file, given := kubeletconfig.Flag(args, "config")
	if _, flag := kubeletconfig.Flag(args, nodeCgroup); flag || !given || len(args) < 2 || args[1] != "agent" {
		return args
	}
	text, err := os.ReadFile(filepath.Join(procRoot, pid, "root", file))
	if err != nil {
		return args
	}
	place := "/"
	var faults strictyaml.Faults
	for _, e := range strictyaml.Parse(text, &faults).Entries() {
		if e.Key == "nodeCgroup" {
			place = e.Value.Text()
		}
	}
	if faults.Err() != nil {
		return args
	}
	return append(args, "--"+nodeCgroup+"="+place)
}

const nodeCgroup = "node-cgroup"
