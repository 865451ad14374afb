package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// importOptions are the flags of plimsoll import-kubelet-config.
type importOptions struct {
	dropIns   string
	flags     string
	capacity  map[string]string
	directory string
}

// Names of the files that an import writes to a directory.
const (
	importedAgent   = "agent.yaml"
	importedKubelet = "99-plimsoll.conf"
)

func importCommand() *cobra.Command {
	var i importOptions
	cmd := &cobra.Command{
		Use:   "import-kubelet-config FILE",
		Short: "Make the agent's configuration, and the changes for the kubelet, from a kubelet's configuration",
		Long: `Reads a KubeletConfiguration and writes two YAML documents: an AgentConfiguration
that evicts as the kubelet did, and a drop-in file for the kubelet, by which it
reports what the agent sees and evicts only below half of the agent's thresholds.
systemReserved grows by what the kubelet's thresholds lose, so that allocatable
stays as it was, and with it the usage of all pods above which a kubelet evicts.
What should be known beside it goes to standard error.

Percentages of memory.available and nodefs.available are worth different amounts
on different machines. With --capacity they are those of one kind of machine;
without it the kubelet's threshold stays and the agent's is a quarter above it.

Exit status: 0 written, 1 a file can not be read or written, 2 it is no valid
configuration (a line on standard error for every fault).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return invalidError{fmt.Errorf("import-kubelet-config takes one file; %d were given", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return i.run(args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&i.dropIns, "drop-in", "", "drop-in directory of the kubelet (its --config-dir), without "+importedKubelet+" of an earlier import")
	cmd.Flags().StringVar(&i.flags, "kubelet-flags", "", "flags of the kubelet, separated by spaces; they override files")
	cmd.Flags().StringToStringVar(&i.capacity, "capacity", nil, "capacity that percentages refer to, such as memory=16Gi,ephemeral-storage=100Gi (status.capacity of the Node)")
	cmd.Flags().StringVarP(&i.directory, "output-dir", "d", "", "write "+importedAgent+" and "+importedKubelet+" into this directory instead of standard output")
	return cmd
}

func (i *importOptions) run(file string, out, errs io.Writer) error {
	shared, err := i.convert(file)
	if errors.As(err, new(strictyaml.Faults)) {
		return invalidError{err}
	}
	if err != nil {
		return err
	}
	if err := i.write(shared, out); err != nil {
		return fmt.Errorf("write what was imported: %w", err)
	}
	for _, note := range shared.Notes {
		fmt.Fprintln(errs, "note:", note)
	}
	return nil
}

func (i *importOptions) convert(file string) (shared kubeletconfig.Shared, err error) {
	capacity, err := kubeletconfig.ParseCapacity("--capacity", i.capacity)
	if err != nil {
		return shared, err
	}
	sources := kubeletconfig.Sources{Args: strings.Fields(i.flags)}
	if sources.File, err = os.ReadFile(file); err != nil {
		return shared, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	earlier := false
	if i.dropIns != "" {
		if _, err = os.Stat(i.dropIns); errors.Is(err, fs.ErrNotExist) {
			return shared, fmt.Errorf("--drop-in: %s: no such directory; leave --drop-in out if the kubelet has no --config-dir", i.dropIns)
		}
		// With its own output an import would halve the thresholds again.
		sources.DropIns, err = probe.DropIns(i.dropIns, func(name string) bool {
			earlier = earlier || name == importedKubelet
			return name != importedKubelet
		})
		if err != nil {
			return shared, err
		}
	}
	if shared, err = sources.Share(capacity); err != nil {
		return shared, err
	}
	if earlier {
		shared.Notes = slices.Insert(shared.Notes, 0, "left out "+importedKubelet+", which an earlier import wrote")
	}
	// The agent would refuse an invalid configuration only at its start.
	_, err = config.ParseFile(shared.Agent)
	return shared, err
}

func (i *importOptions) write(shared kubeletconfig.Shared, out io.Writer) error {
	if i.directory == "" {
		_, err := fmt.Fprintf(out, "%s---\n%s", shared.Agent, shared.Kubelet)
		return err
	}
	if err := os.MkdirAll(i.directory, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{importedAgent: shared.Agent, importedKubelet: shared.Kubelet} {
		if err := os.WriteFile(filepath.Join(i.directory, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
