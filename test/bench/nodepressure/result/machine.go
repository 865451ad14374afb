package result

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// Machine describes where a run happened.
type Machine struct {
	Name         string `json:"name"` // the value of -machine
	Processor    string `json:"processor"`
	Processors   int    `json:"processors"`
	Memory       int64  `json:"memory"`
	Swap         int64  `json:"swap"`
	Kernel       string `json:"kernel"` // release and architecture, as in "6.1.0-30-cloud-amd64 x86_64"
	Distribution string `json:"distribution"`
	Hypervisor   string `json:"hypervisor,omitempty"`
	Cgroup       int    `json:"cgroup"`
	// LowersScores reports whether processes could get an oom_score_adj below that of the referee.
	LowersScores bool   `json:"lowersScores"`
	Load         string `json:"load"` // when the benchmark began
}

// Describe describes this machine. What can not be read stays empty.
func Describe(name string, cgroup int, lowersScores bool) Machine {
	m := Machine{Name: name, Processors: runtime.NumCPU(), Cgroup: cgroup, LowersScores: lowersScores}
	m.Processor = field("/proc/cpuinfo", "model name", ":")
	m.Distribution = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	m.Memory, _ = gauge.Memory()
	kib, _ := gauge.ValueOf("/proc/meminfo", "SwapTotal:")
	m.Swap = kib << 10
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	for _, file := range []string{"sys_vendor", "product_name"} {
		if text, err := os.ReadFile(filepath.Join("/sys/class/dmi/id", file)); err == nil {
			m.Hypervisor = strings.TrimSpace(m.Hypervisor + " " + strings.TrimSpace(string(text)))
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil && len(strings.Fields(string(text))) > 2 {
		m.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return m
}

// field returns the value of the first line with a key.
func field(file, key, separator string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, v, found := strings.Cut(line, separator); found && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// KernelVersion returns the kernel without its build: "6.1.0 x86_64" of "6.1.0-30-cloud-amd64 x86_64".
func (m Machine) KernelVersion() string {
	release, architecture, _ := strings.Cut(m.Kernel, " ")
	version, _, _ := strings.Cut(release, "-")
	return strings.TrimSpace(version + " " + architecture)
}

// String returns the description in one line.
func (m Machine) String() string {
	text := fmt.Sprintf("%s: %d × %s, %d MiB of memory, %d MiB of swap, Linux %s, %s, cgroup v%d",
		m.Name, m.Processors, m.Processor, m.Memory>>20, m.Swap>>20, m.Kernel, m.Distribution, m.Cgroup)
	if m.Hypervisor != "" {
		text += ", " + m.Hypervisor
	}
	if !m.LowersScores {
		text += ", without CAP_SYS_RESOURCE"
	}
	return text
}
