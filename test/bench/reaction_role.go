package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// roleVariable turns this binary into one of the small programs of a race.
const roleVariable = "PLIMSOLL_BENCH_ROLE"

// The roles. Each reads a line of JSON, writes true once it works, and ends with its input.
const (
	roleSampler = "sampler"
	roleLoop    = "loop"
)

var roles = map[string]func(io.Reader, io.Writer) error{
	roleSampler: runSampler,
	roleLoop:    loopAndKill,
}

// runRoleIfSet does not return if the variable is set.
func runRoleIfSet() {
	play, asked := roles[os.Getenv(roleVariable)]
	if !asked {
		return
	}
	if err := play(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Getenv(roleVariable), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startRole starts this binary in a role with its orders.
func startRole(role string, orders any) (*exec.Cmd, io.Closer, *json.Decoder, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for its driver
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, fmt.Errorf("start the %s: %w", role, err)
	}
	if err := json.NewEncoder(in).Encode(orders); err != nil {
		return nil, nil, nil, fmt.Errorf("write the input of the %s: %w", role, err)
	}
	return cmd, in, json.NewDecoder(bufio.NewReader(out)), nil
}
