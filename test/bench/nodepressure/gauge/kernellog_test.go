package gauge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKernelLog_HasKills writes records as a program can, which the log keeps beside those of the kernel.
func TestKernelLog_HasKills(t *testing.T) {
	mark := fmt.Sprintf("node-pressure-bench test %d", time.Now().UnixNano())
	record := func(text string) error {
		return os.WriteFile("/dev/kmsg", []byte("<6>"+mark+": "+text+"\n"), 0)
	}
	if err := record("before the opening: Out of memory"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and the kernel's log can not be written: %v", err)
		}
		t.Skip(err)
	}
	l, err := OpenKernelLog()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a network device", "Memory cgroup out of memory: Killed process 7"} {
		if err := record(text); err != nil {
			t.Error(err)
		}
	}
	lines := slices.DeleteFunc(l.Kills(), func(line string) bool { return !strings.Contains(line, mark) }) // others' kills
	if len(lines) != 1 || !strings.HasSuffix(lines[0], ": Memory cgroup out of memory: Killed process 7") {
		t.Errorf("got %q, want the one line about a kill", lines)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
