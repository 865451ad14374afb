package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const usage = `usage: nodee2e suite [-mode kubelet|plimsoll] [-agent FLAG]… [SPEC…]
       nodee2e node  [-mode kubelet|plimsoll] [-agent FLAG]… SPEC
       nodee2e kubelet FLAG…
`

// Modes of the node.
const (
	kubeletAlone = "kubelet"
	withPlimsoll = "plimsoll"
)

// options are the flags of suite and node.
type options struct {
	mode  string
	agent list // further flags of the agent
	specs []spec
}

// list is a flag that can be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch command, args := os.Args[1], os.Args[2:]; command {
	case "suite", "node":
		var o *options
		if o, err = parse(command, args); err != nil {
			fmt.Fprintln(os.Stderr, "nodee2e:", err)
			os.Exit(2)
		}
		if command == "suite" {
			err = runSuite(o)
		} else {
			err = runNode(o)
		}
	case "kubelet":
		err = runKubelet(args)
	case "await-kubelet":
		err = awaitKubelet()
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodee2e:", err)
		os.Exit(1)
	}
}

func parse(command string, args []string) (*options, error) {
	var o options
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.mode, "mode", kubeletAlone, "what evicts: kubelet or plimsoll")
	flags.Var(&o.agent, "agent", "a flag of the agent, such as --garbage-collection=on")
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, usage)
	}
	if o.mode != kubeletAlone && o.mode != withPlimsoll {
		return nil, fmt.Errorf("-mode=%s: want %s or %s", o.mode, kubeletAlone, withPlimsoll)
	}
	names := flags.Args()
	if command == "node" && len(names) != 1 {
		return nil, errors.New("node runs one spec")
	}
	if len(names) == 0 {
		o.specs = specs
	}
	for _, name := range names {
		s, err := find(name)
		if err != nil {
			return nil, err
		}
		o.specs = append(o.specs, s)
	}
	return &o, nil
}
