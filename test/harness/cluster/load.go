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
	text.WriteString("processor time, s (with ended children), of processes:\n")
	writeMost(&text, processes())
	text.WriteString("processor time, s, of cgroups:\n")
	writeMost(&text, cgroups())
	return text.String()
}

// consumer has used processor time.
type consumer struct {
	seconds, withChildren float64
	name                  string
}

func writeMost(text *strings.Builder, all []consumer) {
	slices.SortFunc(all, func(a, b consumer) int { return cmp.Compare(b.withChildren, a.withChildren) })
	for _, c := range all[:min(len(all), maxConsumers)] {
		fmt.Fprintf(text, "  %8.1f %8.1f  %s\n", c.seconds, c.withChildren, c.name)
	}
}

// processes returns the living processes.
func processes() (all []consumer) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // ended
		}
		_, after, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(after) // from the third one of proc(5) on
		if len(fields) < 15 {
			continue
		}
		ticks := func(field int) float64 {
			n, _ := strconv.ParseFloat(fields[field-3], 64)
			return n / 100 // USER_HZ
		}
		own := ticks(14) + ticks(15)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		name := cmp.Or(strings.ReplaceAll(string(command), "\x00", " "), string(content[:len(content)-len(after)]))
		all = append(all, consumer{own, own + ticks(16) + ticks(17), name[:min(len(name), 100)]})
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
			all = append(all, consumer{micros / 1e6, micros / 1e6, filepath.Dir(path)})
		}
		return nil
	})
	return all
}
