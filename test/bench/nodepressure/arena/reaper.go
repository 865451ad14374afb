package arena

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// prefix begins the names of all cgroups of nodes.
const prefix = "npb-"

// DirectoryPrefix begins the names of all directories of files.
const DirectoryPrefix = "node-pressure-bench-"

// reaper is a process that ends the node if this process is killed.
type reaper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startReaper() (*reaper, error) {
	r := &reaper{cmd: exec.Command("/proc/self/exe", "reaper")}
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals for the referee's group do not reach it
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r.in = in
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	return r, nil
}

// note names something to remove.
func (r *reaper) note(kind, path string) error {
	if _, err := fmt.Fprintf(r.in, "%s %s\n", kind, path); err != nil {
		return fmt.Errorf("note %s with the reaper: %w", path, err)
	}
	return nil
}

// close ends the reaper, which has nothing left to do.
func (r *reaper) close() error {
	if r.in == nil {
		return nil
	}
	_, err := io.WriteString(r.in, "done\n")
	err = errors.Join(err, r.in.Close(), r.cmd.Wait())
	r.in = nil
	return err
}

// Reap is the role of the reaper: it reads what to remove, and removes it if its input ends without
// done. Returns an error if something remains.
func Reap(in io.Reader) error {
	var cgroups, directories []string
	for lines := bufio.NewScanner(in); lines.Scan(); {
		kind, path, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "cgroup":
			cgroups = append(cgroups, path)
		case "directory":
			directories = append(directories, path)
		case "done":
			return nil
		}
	}
	err := remove(cgroups)
	for _, dir := range directories {
		if !strings.HasPrefix(filepath.Base(dir), DirectoryPrefix) {
			return errors.Join(err, fmt.Errorf("%s is no directory of the benchmark", dir))
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// owned matches the owner in the name of a cgroup: PID namespace, PID, start time.
var owned = regexp.MustCompile(`^` + prefix + `([0-9]+)-([0-9]+)-([0-9]+)-[0-9]+(-contestant)?$`)

// Sweep removes the cgroups of runs of which both process and reaper were killed. Returns an error if
// one remains.
func Sweep() error {
	l, err := Detect()
	if err != nil {
		return err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range l.mounts {
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			found := owned.FindStringSubmatch(e.Name())
			if found == nil || found[1] != namespace {
				continue // the state of processes of another namespace is unknown
			}
			if start, err := startTime(found[2]); err != nil && !errors.Is(err, os.ErrNotExist) || start == found[3] {
				continue
			}
			errs = append(errs, remove([]string{filepath.Join(m.dir, e.Name())}))
		}
	}
	return errors.Join(errs...)
}

// tree lists a directory and those below, without those that are gone meanwhile.
func tree(dir string) (all []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err == nil && e.IsDir():
			all = append(all, path)
		}
		return err
	})
	return all, err
}

// myself identifies this process uniquely.
func myself() (string, error) {
	namespace, err := pidNamespace()
	if err != nil {
		return "", err
	}
	start, err := startTime("self")
	return fmt.Sprintf("%s-%d-%s", namespace, os.Getpid(), start), err
}

func pidNamespace() (string, error) {
	link, err := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]"), err
}

// startTime returns when a process was started, in ticks since the boot.
func startTime(pid string) (string, error) {
	fields, err := statOf(pid)
	if err != nil {
		return "", err
	}
	return fields[19], nil
}

// statOf returns the fields of a process behind its name, of which the first is its state.
func statOf(pid string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil, err
	}
	// The second field is a name in parentheses with arbitrary characters.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%s/stat has %d fields after the name", pid, len(fields))
	}
	return fields, nil
}
