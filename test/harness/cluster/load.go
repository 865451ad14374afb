package cluster

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// maxConsumers is the number of processes, and of cgroups, that [machineLoad] names.
const maxConsumers = 15

// machineLoad describes, for readers of a failed test, what the machine was busy with: its stalls, and what used
// processor time since its start. It is complete only in a virtual machine of its own.
func machineLoad() string {
	var text strings.Builder
	for _, file := range []string{"/proc/uptime", "/proc/loadavg", "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"} {
		content, err := os.ReadFile(file)
		if err != nil {
			content = []byte(err.Error() + "\n")
		}
		fmt.Fprintf(&text, "%s: %s", file, content)
	}
	text.WriteString("processor time, s, of processes with their ended children:\n")
	writeMost(&text, processes())
	text.WriteString("processor time, s, of cgroups:\n")
	writeMost(&text, cgroups())
	return text.String()
}

// consumer has used processor time.
type consumer struct {
	seconds float64
	name    string
}

func writeMost(text *strings.Builder, all []consumer) {
	slices.SortFunc(all, func(a, b consumer) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, c := range all[:min(len(all), maxConsumers)] {
		fmt.Fprintf(text, "  %8.1f  %s\n", c.seconds, c.name)
	}
}

// processes returns the living processes.
func processes() (all []consumer) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		own, children, err := sandbox.CPUTime(pid)
		if err != nil {
			continue // ended
		}
		name, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(name) == 0 { // a thread of the kernel
			name, _ = os.ReadFile(filepath.Join(dir, "comm"))
		}
		words := strings.TrimSpace(strings.ReplaceAll(string(name[:min(len(name), 100)]), "\x00", " "))
		all = append(all, consumer{(own + children).Seconds(), fmt.Sprintf("(%.1f without them) %s", own.Seconds(), words)})
	}
	return all
}

// cgroups returns the cgroups of version 2.
func cgroups() (all []consumer) {
	_ = filepath.WalkDir(cgroupRoot, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cpu.stat" {
			return nil // removed meanwhile
		}
		content, _ := os.ReadFile(path)
		var micros float64
		if _, err := fmt.Sscanf(string(content), "usage_usec %g", &micros); err == nil {
			all = append(all, consumer{micros / 1e6, filepath.Dir(path)})
		}
		return nil
	})
	return all
}
