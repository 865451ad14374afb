package survey

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/doctor"
)

// processes lists the host's processes, with the command lines of those whose flags
// matter. A process that ends meanwhile is none.
func (o *NodeOptions) processes() doctor.Fact[[]doctor.Process] {
	all, err := processes(o.ProcRoot)
	if err != nil {
		return doctor.Unknown[[]doctor.Process](err.Error())
	}
	return doctor.Known(all)
}

// withArgs are the names of processes whose command lines matter.
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
		if err != nil {
			continue
		}
		p := doctor.Process{PID: pid, Name: strings.TrimSpace(string(comm))}
		if slices.Contains(withArgs, p.Name) {
			p.Args = args(procRoot, name)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("list the processes in %s: there are none: it is not the /proc of a host", procRoot)
	}
	return all, nil
}

// args is a process's command line; empty once it has ended.
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
