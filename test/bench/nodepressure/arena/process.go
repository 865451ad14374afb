package arena

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// Command returns a command that runs in the place from its first instruction on: this binary in the role
// of [Enter], which becomes the program.
func (p *Place) Command(oomScoreAdj int, argv ...string) *exec.Cmd {
	args := append([]string{"enter", strconv.Itoa(oomScoreAdj), strings.Join(p.dirs, ",")}, argv...)
	return exec.Command("/proc/self/exe", args...)
}

// Enter moves this process into cgroups, sets its oom_score_adj and executes the program: args are those
// of [Place.Command]. It returns only with an error.
func Enter(args []string) error {
	if len(args) < 3 {
		return errors.New("want a score, directories and a program")
	}
	for dir := range strings.SplitSeq(args[1], ",") {
		if err := write(dir, "cgroup.procs", "0"); err != nil {
			return err
		}
	}
	// Lower scores need CAP_SYS_RESOURCE; the machine's description records whether it is there.
	if err := write("/proc/self", "oom_score_adj", args[0]); err != nil && !errors.Is(err, unix.EACCES) {
		return err
	}
	path, err := exec.LookPath(args[2])
	if err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", path, unix.Exec(path, args[2:], os.Environ()))
}

// LowersScores reports whether this process may lower an oom_score_adj.
func LowersScores() bool {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil || write("/proc/self", "oom_score_adj", "-1000") != nil {
		return false
	}
	return write("/proc/self", "oom_score_adj", strings.TrimSpace(string(text))) == nil
}

// Protect keeps the kernel's OOM killer away from this process. Returns an error without
// CAP_SYS_RESOURCE.
func Protect() error { return write("/proc/self", "oom_score_adj", "-1000") }

// OOMScoreAdj returns the score that a kubelet gives the processes of a pod. A process of a burstable pod
// gets the less the larger the share of the node's memory that the pod requests.
func OOMScoreAdj(qos QoS, request, node int64) int {
	switch qos {
	case Guaranteed:
		return -997
	case BestEffort:
		return 1000
	}
	return int(min(max(1000-1000*request/node, 3), 999))
}

// CPU returns the processor time that the processes of the contestant's group have used.
func (n *Node) CPU() (time.Duration, error) {
	if n.layout.Version == 2 {
		usec, err := gauge.ValueOf(filepath.Join(root, n.group, "cpu.stat"), "usage_usec")
		return time.Duration(usec) * time.Microsecond, err
	}
	dir := n.layout.dir("cpuacct")
	if dir == "" {
		return 0, errors.New("no cpuacct controller of cgroup v1: mount it")
	}
	text, err := os.ReadFile(filepath.Join(dir, n.group, "cpuacct.usage"))
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Duration(ns), err
}

// Stopped reports whether the place has processes, and they are frozen or one of them is stopped by a signal.
func (p *Place) Stopped() bool {
	pids, err := processes(p.dirs)
	if err != nil || len(pids) == 0 {
		return false
	}
	for _, dir := range p.dirs {
		if frozen, err := gauge.ValueOf(filepath.Join(dir, "cgroup.events"), "frozen"); err == nil && frozen != 0 {
			return true
		}
		if text, err := os.ReadFile(filepath.Join(dir, "freezer.state")); err == nil && strings.TrimSpace(string(text)) != "THAWED" {
			return true
		}
	}
	for pid := range pids {
		if fields, err := statOf(strconv.Itoa(pid)); err == nil && fields[0] == "T" {
			return true
		}
	}
	return false
}

// Enlarged reports whether the memory limit of the node is higher than that with which it was made.
func (n *Node) Enlarged() (bool, error) {
	if n.Machine {
		return false, nil
	}
	file := "memory.max"
	if n.layout.Version == 1 {
		file = "memory.limit_in_bytes"
	}
	text, err := os.ReadFile(filepath.Join(n.memory(""), file))
	if err != nil {
		return false, err
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return err != nil || limit > n.Limit, nil // "max" is no number
}

// MaxResident returns the sum of the maximum resident sets of the processes of the contestant's group in
// bytes.
func (n *Node) MaxResident() (sum int64, err error) {
	pids, err := processes(n.ContestantPlace().dirs)
	if err != nil {
		return 0, err
	}
	for pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		kib, _ := gauge.Value([]byte(strings.ReplaceAll(string(text), "\t", " ")), "VmHWM:")
		sum += kib << 10
	}
	return sum, nil
}
