package sandbox

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Maker starts this binary again with a variable (NAME=VALUE) that turns it into
// a process that makes something, says on its first line what, and waits to be
// ended, so that a test sees what its end leaves behind. It returns the process
// and that line once it is said; at the latest the end of the test kills the
// process. What it writes to standard error goes to stderr, nil for nowhere.
func Maker(t TB, variable string, stderr io.Writer) (cmd *exec.Cmd, said string) {
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
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the maker says %q, %v", said, err)
	}
	return cmd, strings.TrimSpace(said)
}
