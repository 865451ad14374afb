package trial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the plimsoll binary of this checkout in a directory and returns its path. With
// the environment variable PLIMSOLL it returns that binary instead, for a machine without a
// compiler. Returns the error of the compiler.
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
