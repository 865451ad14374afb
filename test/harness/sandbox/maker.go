package sandbox

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Maker starts this binary again with a variable (NAME=VALUE). The variable turns it into a
// process that creates something, names it in its first line of output, and waits for its end:
// tests check the leftovers. Maker returns the process and the line. At the latest the end of
// the test kills the process. Its standard error goes to stderr; nil discards it.
func Maker(t TB, variable string, stderr io.Writer) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("make the pipe of a maker: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start this binary as a maker: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("output of the maker: %q, %v", line, err)
	}
	return cmd, strings.TrimSpace(line)
}
