package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// sysroot is the mount point of the root file system before the switch to it.
const sysroot = "/sysroot"

// service runs the plan in a machine with systemd. Its directory /run exists before systemd
// starts, and systemd reads units there. The address is the one that qemu's network expects.
const service = `[Unit]
Description=the plan of the virtual machine
After=dbus.service
FailureAction=poweroff-force

[Service]
Type=exec
Environment=HOME=/root USER=root TMPDIR=/tmp PLIMSOLL_VM=systemd PATH=/usr/sbin:/usr/bin:/sbin:/bin
ExecStartPre=ip link set eth0 up
ExecStartPre=ip address add 10.0.2.15/24 dev eth0
ExecStartPre=ip route add default via 10.0.2.2
ExecStart=/run/machine/init
StandardOutput=journal+console
StandardError=journal+console
LimitNOFILE=1048576
TasksMax=infinity
OOMPolicy=continue
OOMScoreAdjust=-900
`

// startSystem mounts the root file system and the files of the working directory, and continues
// as systemd, which starts this program again as a service.
func startSystem(root, files string) error {
	if err := loadModules(); err != nil {
		return err
	}
	for _, m := range []struct {
		device, dir string
		flags       uintptr
	}{{root, sysroot, unix.MS_NOATIME}, {files, sysroot + wire.Here, unix.MS_RDONLY}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.device, m.dir, "ext4", m.flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.device, m.dir, err)
		}
	}
	if err := writeService(); err != nil {
		return err
	}
	return switchRoot()
}

// writeService writes the plan, this program and its unit.
func writeService() error {
	wants := "/run/systemd/system/multi-user.target.wants"
	for _, dir := range []string{"/run/machine", wants} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		from, to string
		mode     os.FileMode
	}{{"/proc/self/exe", "/run/machine/init", 0o755}, {wire.PlanFile, servicePlan, 0o600}} {
		text, err := os.ReadFile(f.from)
		if err == nil {
			err = os.WriteFile(f.to, text, f.mode)
		}
		if err != nil {
			return err
		}
	}
	const name = "machine.service"
	if err := os.WriteFile("/run/systemd/system/"+name, []byte(service), 0o644); err != nil {
		return err
	}
	return os.Symlink("../"+name, filepath.Join(wants, name))
}

// servicePlan is the place of the plan for the service.
const servicePlan = "/run/machine/plan"

// switchRoot moves the mounts below the root file system, makes it the root and executes its
// init. It returns only with an error.
func switchRoot() error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run"} {
		if err := unix.Mount(dir, sysroot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to the root file system: %w", dir, err)
		}
	}
	if err := os.Chdir(sysroot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root file system to /: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return fmt.Errorf("execute systemd: %w", unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"PATH=/usr/sbin:/usr/bin"}))
}

// runService runs the plan as a service of systemd. Processes that a command leaves end with
// the machine.
func runService() error {
	line, err := openLine()
	if err != nil {
		return err
	}
	return (&reporter{out: line, start: startInService}).report(servicePlan)
}

// startInService starts a command and returns the wait for its end.
func startInService(cmd *exec.Cmd) (ended func() (int, string, error), kill func(), err error) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	kill = func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // ESRCH: it has ended
	return func() (int, string, error) {
		_ = cmd.Wait() // the state contains the result
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return 128 + int(status.Signal()), "ended by " + status.Signal().String(), nil
		}
		return status.ExitStatus(), "", nil
	}, kill, nil
}
