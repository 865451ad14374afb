package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

var (
	errNoConfigCommand = errors.New("plimsoll config needs a command: check")
	errUnreadable      = errors.New("not every file can be read")
	errNotValid        = errors.New("not every configuration is valid")
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Work with configuration files",
		RunE:  func(*cobra.Command, []string) error { return invalidError{errNoConfigCommand} },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE...",
		Short: "Check configuration files of agents and controllers without starting anything",
		Long: `Reads each file as the program does that it is for: an AgentConfiguration or a
ControllerConfiguration. Reports every fault of every file on standard error. It
needs no root, no node and no cluster, and starts nothing. - is standard input.

Exit status: 0 all files are valid, 1 a file can not be read, 2 a file is not
valid.`,
		Example: `  plimsoll config check /etc/plimsoll/agent.yaml
  helm template plimsoll deploy/helm/plimsoll -s templates/agent-config.yaml | yq '.data["agent.yaml"]' | plimsoll config check -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalidError{errors.New("config check needs a file, or - for standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkFiles(args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

// checkFiles checks every file, whatever is wrong with those before it. Returns an
// invalidError if one is not valid, else errUnreadable if one can not be read.
func checkFiles(files []string, in io.Reader, out, errs io.Writer) error {
	var unreadable, invalid bool
	for _, name := range files {
		data, err := readConfig(in, name)
		if err != nil {
			fmt.Fprintln(errs, err)
			unreadable = true
			continue
		}
		kind, warnings, err := checkConfig(data)
		for _, w := range warnings {
			fmt.Fprintf(errs, "%s: warning: %s\n", name, w)
		}
		var faults strictyaml.Faults
		switch {
		case errors.As(err, &faults):
			invalid = true
			for _, f := range faults {
				fmt.Fprintf(errs, "%s: %v\n", name, f)
			}
		case err != nil:
			invalid = true
			fmt.Fprintf(errs, "%s: %v\n", name, err)
		default:
			fmt.Fprintf(out, "%s: valid %s\n", name, kind)
		}
	}
	switch {
	case invalid:
		return invalidError{errNotValid}
	case unreadable:
		return errUnreadable
	}
	return nil
}

// checkConfig returns the kind of a configuration and its warnings. Returns an error
// if the program of that kind would not start with it.
func checkConfig(data []byte) (kind string, warnings []string, err error) {
	kind, err = options.KindOf(data, []string{agentconfig.Kind, controllerconfig.Kind}, slices.Concat(agentconfig.Fields(), controllerconfig.Fields()))
	switch {
	case err != nil:
		return "", nil, err
	case kind == controllerconfig.Kind:
		c, err := controllerconfig.ParseFile(data)
		if err != nil {
			return kind, nil, err
		}
		return kind, c.Warnings(), nil
	}
	c, err := agentconfig.ParseFile(data)
	if err != nil {
		return kind, nil, err
	}
	if given := c.ContainerRuntimeEndpoint; given != "" && given != agentconfig.NoRuntime {
		if _, err := cri.ParseEndpoint(given); err != nil {
			return kind, nil, fmt.Errorf("containerRuntimeEndpoint: %w", err)
		}
	}
	return kind, nil, nil
}

// readConfig reads a file, or standard input for -.
func readConfig(in io.Reader, name string) (data []byte, err error) {
	if name == "-" {
		data, err = options.ReadAll(in)
	} else {
		data, err = options.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration %s: %w", name, err)
	}
	return data, nil
}
