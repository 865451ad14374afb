package trial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build makes the plimsoll binary of this checkout in a directory, for tests that
// try it as it is now; what the environment variable PLIMSOLL names, where that
// is set, as in a machine without a compiler.
func Build(dir string) (binary string, err error) {
	if os.Getenv("PLIMSOLL") != "" {
		return Binary()
	}
	binary = filepath.Join(dir, "plimsoll")
	build := exec.Command("go", "build", "-o", binary, "plimsoll.dev/plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return binary, nil
}
