package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// maker matches the part of a node's name that identifies its creating process: PID namespace,
// PID and start time. The combination is unique.
var maker = regexp.MustCompile(`^plimsoll-([a-z][a-z0-9-]*)\.([0-9]+)-([0-9]+)-([0-9]+)\.[0-9]+$`)

// Sweep removes the nodes of that name (every name if empty) with a dead owner, and ends their
// remaining processes. Nodes with an owner in another PID namespace stay, because the state of
// the owner is unknown. Returns an error if a node can not be removed.
func Sweep(name string) error {
	l, err := detect()
	if err != nil {
		return err
	}
	return sweep(l.mounts, name)
}

// sweep removes such nodes below the given directories.
func sweep(mounts []mount, name string) error {
	namespace, err := pidNamespace()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, e := range entries {
			if e.IsDir() && orphaned(e.Name(), name, namespace) {
				errs = append(errs, remove([]string{filepath.Join(m.dir, e.Name())}))
			}
		}
	}
	return errors.Join(errs...)
}

func orphaned(dir, name, namespace string) bool {
	found := maker.FindStringSubmatch(dir)
	if found == nil || name != "" && found[1] != name || found[2] != namespace {
		return false
	}
	start, err := startTime(found[3])
	switch {
	case errors.Is(err, os.ErrNotExist):
		return true
	case err != nil:
		return false // unknown counts as alive
	}
	return start != found[4]
}

func myself() (string, error) {
	namespace, err := pidNamespace()
	if err != nil {
		return "", err
	}
	start, err := startTime("self")
	return fmt.Sprintf("%s-%d-%s", namespace, os.Getpid(), start), err
}

// pidNamespace returns the inode of this process's PID namespace: "pid:[4026531836]".
func pidNamespace() (string, error) {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
	if _, err := strconv.ParseUint(inode, 10, 64); err != nil {
		return "", fmt.Errorf("read /proc/self/ns/pid: %q is no PID namespace", link)
	}
	return inode, nil
}

// startTime returns field 22 of /proc/PID/stat (proc(5)), in clock ticks since boot.
func startTime(pid string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", err
	}
	// The second field is a name in parentheses with arbitrary characters.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("read /proc/%s/stat: %d fields after the name, want 20", pid, len(fields))
	}
	return fields[19], nil
}
