package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Patience returns the bound of a wait on this machine. An emulated machine executes several
// times slower; the program that boots it sets the factor.
func Patience(d time.Duration) time.Duration {
	if factor, err := strconv.Atoi(os.Getenv("PLIMSOLL_VM_SLOWER")); err == nil && factor > 0 {
		return d * time.Duration(factor)
	}
	return d
}

// rarely returns the interval of a poll on this machine. A request takes an emulated processor up to 0.1 s, and several polls
// can be under way: at the pace of waits they took a fifth of its time.
func rarely(d time.Duration) time.Duration { return Patience(Patience(d)) }

// Prebuilt reports whether this machine has no Go toolchain (test/harness/vm). It then links the
// named files of bin/built into the directory. Returns the error of a link.
func Prebuilt(dir string, names ...string) (bool, error) {
	if !wholeMachine() {
		return false, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return true, err
	}
	for _, name := range names {
		if err := os.Symlink(filepath.Join(root, "bin", "built", name), filepath.Join(dir, name)); err != nil {
			return true, err
		}
	}
	return true, nil
}
