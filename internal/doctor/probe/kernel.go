package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/doctor"
)

// kernel reads the facts of the kernel.
func (o *NodeOptions) kernel(f *doctor.Facts) {
	f.KernelRelease = o.release()
	f.Cgroups = o.cgroups()
	f.StallFault = o.stalls()
	memory, swap, err := o.memory()
	if err != nil {
		f.Swap = doctor.Unknown[signals.Bytes](err.Error())
	} else {
		f.Swap = doctor.Known(swap)
	}
	f.Capacity = o.capacity(memory, err)
	f.Processes = o.processes()
	f.StateFault = o.state()
	f.Disarmed = o.disarmed()
	f.KernelLogFault = o.kernelLog()
}

func (o *NodeOptions) release() doctor.Fact[string] {
	text, err := os.ReadFile(filepath.Join(o.ProcRoot, "sys/kernel/osrelease"))
	if err != nil {
		return doctor.Unknown[string](err.Error())
	}
	return doctor.Known(strings.TrimSpace(string(text)))
}

// controllers are those that the agent uses.
var controllers = []string{"memory", "pids"}

func (o *NodeOptions) cgroups() doctor.Fact[doctor.Cgroups] {
	h, err := cgroup.Detect(o.CgroupRoot)
	if err != nil {
		return doctor.Known(doctor.Cgroups{Fault: err.Error()})
	}
	found := doctor.Cgroups{Version: int(h.Version)}
	if h.Version == cgroup.V2 {
		if found.Missing, err = missingV2(o.CgroupRoot); err != nil {
			return doctor.Unknown[doctor.Cgroups](err.Error())
		}
		found.NoKill = h.LacksKill()
		return doctor.Known(found)
	}
	for _, c := range controllers {
		if _, err := os.Stat(filepath.Join(h.Dir(c, "/"), "cgroup.procs")); err != nil {
			found.Missing = append(found.Missing, c)
		}
	}
	_, err = os.Stat(filepath.Join(o.CgroupRoot, "unified", "cgroup.controllers"))
	found.Hybrid = err == nil
	return doctor.Known(found)
}

// missingV2 returns the controllers that cgroups below root do not have: the kernel lacks them, or
// they are not enabled.
func missingV2(root string) (missing []string, err error) {
	for _, name := range []string{"cgroup.controllers", "cgroup.subtree_control"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		there := strings.Fields(string(text))
		for _, c := range controllers {
			if !slices.Contains(there, c) && !slices.Contains(missing, c) {
				missing = append(missing, c)
			}
		}
	}
	return missing, nil
}

// stalls returns why the kernel reports no stalls. It reads the file, since the file exists on some
// kernels that were started with psi=0.
func (o *NodeOptions) stalls() doctor.Fact[string] {
	file := filepath.Join(o.ProcRoot, "pressure/memory")
	_, err := os.ReadFile(file)
	switch {
	case err == nil:
		return doctor.Known("")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP):
		return doctor.Known("the kernel offers no pressure stall information: " + err.Error())
	}
	return doctor.Unknown[string](err.Error())
}

// memory reads the amounts of memory and swap of the machine.
func (o *NodeOptions) memory() (memory, swap signals.Bytes, err error) {
	file := filepath.Join(o.ProcRoot, "meminfo")
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	found := 0
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		into := map[string]*signals.Bytes{"MemTotal": &memory, "SwapTotal": &swap}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53)
		if err != nil {
			return 0, 0, fmt.Errorf("read %s: %q is no number of kB", file, strings.TrimSpace(string(line)))
		}
		*into = signals.Bytes(kib << 10)
		found++
	}
	if found < 2 {
		return 0, 0, fmt.Errorf("read %s: it has no MemTotal and SwapTotal", file)
	}
	return memory, swap, nil
}

// capacity returns the amounts that percentages refer to: the machine's memory, and the file system
// of the kubelet's directory.
func (o *NodeOptions) capacity(memory signals.Bytes, err error) doctor.Fact[doctor.Capacity] {
	if err != nil {
		return doctor.Unknown[doctor.Capacity](err.Error())
	}
	var st syscall.Statfs_t
	dir := existing(filepath.Join(o.HostRoot, o.KubeletRoot))
	if err := syscall.Statfs(dir, &st); err != nil {
		return doctor.Unknown[doctor.Capacity](fmt.Sprintf("statfs %s: %v", dir, err))
	}
	return doctor.Known(doctor.Capacity{
		signals.MemoryAvailable:  signals.Amount(memory),
		signals.NodefsAvailable:  signals.Amount(st.Blocks) * signals.Amount(st.Bsize),
		signals.NodefsInodesFree: signals.Amount(st.Files),
	})
}

// existing returns the directory, or its nearest existing ancestor.
func existing(dir string) string {
	for dir != "/" {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// mayWrite is an access mode of access(2).
const mayWrite = 2

// state returns why the agent could not write its state. Root may write despite the permissions;
// the check of any other user is inconclusive.
func (o *NodeOptions) state() doctor.Fact[string] {
	if o.StateFile == "" {
		return doctor.Known("")
	}
	dir := existing(filepath.Dir(o.StateFile))
	err := syscall.Access(dir, mayWrite)
	switch {
	case err == nil:
		return doctor.Known("")
	case errors.Is(err, syscall.EACCES) && os.Geteuid() != 0:
		return doctor.Unknown[string](fmt.Sprintf("%s is not writable: run as root", dir))
	}
	return doctor.Known(fmt.Sprintf("the state can not be written to %s: %v", dir, err))
}

// kernelLog returns why the kernel's log cannot be read. It opens the log and reads nothing.
func (o *NodeOptions) kernelLog() doctor.Fact[string] {
	f, err := os.OpenFile(cmp.Or(o.KernelLog, "/dev/kmsg"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return doctor.Known("the kernel's log cannot be read: " + err.Error())
	}
	_ = f.Close()
	return doctor.Known("")
}

// disarmed checks for the file that disarms.
func (o *NodeOptions) disarmed() doctor.Fact[bool] {
	if o.Ours.DisarmFile == "" {
		return doctor.Known(false)
	}
	_, err := os.Stat(o.Ours.DisarmFile)
	switch {
	case err == nil:
		return doctor.Known(true)
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Known(false)
	}
	return doctor.Unknown[bool](err.Error())
}
