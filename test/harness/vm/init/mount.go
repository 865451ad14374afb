package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	cgroups = "/sys/fs/cgroup"
	// scratch is on a disk, for files with pages that can be written back and reclaimed: the
	// other file systems of the machine are in memory.
	scratch = "/var/tmp"
	disk    = "/dev/vda"
)

// mounts in their order.
var mounts = []struct{ kind, dir, data string }{
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"devtmpfs", "/dev", ""},
	{"tmpfs", "/dev/shm", "mode=1777"},
	{"cgroup2", cgroups, ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tmpfs", "/run", "mode=755"},
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.dir, err)
		}
	}
	return nil
}

// loadModules loads the kernel's modules. Their names sort in the order of their dependencies.
func loadModules() error {
	files, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close() // read only
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// mountScratch mounts the disk, which exists if the module of its driver was loaded.
func mountScratch() error {
	if err := os.MkdirAll(scratch, 0o1777); err != nil {
		return err
	}
	if err := unix.Mount(disk, scratch, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", disk, scratch, err)
	}
	return nil
}

// enableControllers enables these controllers below the root for every cgroup, as systemd does
// on other machines.
func enableControllers() error {
	file := filepath.Join(cgroups, "cgroup.subtree_control")
	if err := os.WriteFile(file, []byte("+memory +pids +io +cpu"), 0); err != nil {
		return fmt.Errorf("enable the controllers of cgroup v2: %w", err)
	}
	return nil
}

func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raise the loopback interface: %w", err)
	}
	return nil
}
