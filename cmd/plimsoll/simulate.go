package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/simulate"
)

// maxScenarioBytes bounds the size of a scenario file.
const maxScenarioBytes = 64 << 20

func simulateCommand() *cobra.Command {
	var output string
	var compare bool
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Run the decisions of agent or controller over a scenario file in virtual time",
		Long: `Runs the program's own decisions over the timeline of a scenario file, in virtual
time, and prints what they are: of the agent for a NodeScenario (one node under
pressure), of the controller for a ClusterScenario (many nodes that live and
die, and their pods). FILE is YAML or JSON, - is standard input. It needs no
root, no kernel feature and no cluster.

--compare runs a NodeScenario with evictionChoice helps and with kubelet, and
prints the steps in which they decide differently, with the reasons and a
summary. Observations are those of the file: a pod that only one of them evicts
changes no observation of a later step.

Exit status: 0 simulated, 1 the file can not be read, 2 it is not a valid
scenario (a line on standard error for every fault).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return invalidError{fmt.Errorf("simulate takes one scenario file, or - for standard input; %d were given", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runScenario(cmd, args[0], output, compare)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "output format: text, or json with one object per line")
	cmd.Flags().BoolVar(&compare, "compare", false, "run a NodeScenario with evictionChoice helps and kubelet, and print the steps in which they decide differently")
	return cmd
}

func runScenario(cmd *cobra.Command, name, output string, compare bool) error {
	if output != "text" && output != "json" {
		return invalidError{fmt.Errorf("--output: %q: must be text or json", output)}
	}
	data, err := readScenario(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	scenario, faults := simulate.Parse(data)
	if err := faults.Err(); err != nil {
		return invalidError{err}
	}
	if compare {
		node, is := scenario.(*simulate.NodeScenario)
		if !is {
			return invalidError{fmt.Errorf("--compare: %s is a ClusterScenario, which has no evictionChoice: simulate it without --compare, or compare a %s", name, simulate.NodeKind)}
		}
		scenario = node.Compare()
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	write := scenario.WriteText
	if output == "json" {
		write = scenario.WriteJSON
	}
	err = write(out)
	if _, is := errors.AsType[strictyaml.Faults](err); is {
		return invalidError{err}
	}
	if err != nil {
		return fmt.Errorf("write what was simulated: %w", err)
	}
	return out.Flush()
}

func readScenario(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the scenario: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxScenarioBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the scenario: %w", err)
	case len(data) > maxScenarioBytes:
		return nil, invalidError{fmt.Errorf("the scenario is larger than %d bytes", maxScenarioBytes)}
	}
	return data, nil
}
