package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

func main() {
	run := run
	if os.Getpid() != 1 {
		if _, err := os.Stat(servicePlan); err != nil {
			fmt.Fprintln(os.Stderr, "init: this is the first process of a virtual machine: boot one with go run ./test/harness/vm")
			os.Exit(1)
		}
		run = runService
	}
	if err := run(); err != nil {
		fmt.Println("init:", err) // on the console
	}
	unix.Sync()
	_ = unix.Unmount(scratch, 0)
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		panic(err) // the kernel panics with it
	}
	select {}
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	// The kernel passes NAME=VALUE of its command line as the environment of this process.
	if root := os.Getenv(wire.RootVariable); root != "" {
		return startSystem(root, os.Getenv(wire.FilesVariable))
	}
	line, err := openLine()
	if err != nil {
		return err
	}
	r := &reporter{out: line, start: startAlone, endAll: endAll}
	if err := prepare(); err != nil {
		return errors.Join(err, r.send(&wire.Line{Kind: wire.Failed, Why: err.Error()}))
	}
	return r.report(wire.PlanFile)
}

// report runs the plan and reports its end.
func (r *reporter) report(plan string) error {
	if err := r.play(plan); err != nil {
		return errors.Join(err, r.send(&wire.Line{Kind: wire.Failed, Why: err.Error()}))
	}
	return r.send(&wire.Line{Kind: wire.Finished})
}

// prepare performs the steps that need the mounts and can report their errors.
func prepare() error {
	return errors.Join(unix.Sethostname([]byte("plimsoll-vm")), loadModules(), mountScratch(), enableControllers(), raiseLoopback())
}

func (r *reporter) play(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	plan, err := wire.DecodePlan(text)
	if err != nil {
		return err
	}
	if err := r.send(&wire.Line{Kind: wire.Booted}); err != nil {
		return err
	}
	for i := range plan {
		if err := r.run(i, &plan[i]); err != nil {
			return err
		}
	}
	return nil
}
