package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/simulate"
)

// maxScenarioBytes bounds the size of a scenario file.
const maxScenarioBytes = 64 << 20

func simulateCommand() *cobra.Command {
	var output, recorded, other string
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

--recording repeats the checks of a recording in place of a scenario file, with
the configuration in it, and compares the decisions: they are the same, byte for
byte. With --config too, another configuration is compared with what happened,
between two bounds, since nothing shows how an evicted pod would have grown. The
output states what is known and what is assumed.

Exit status: 0 simulated, 1 the file can not be read, or the decisions of a
recording differ, 2 it is no valid scenario or recording (a line on standard
error for every fault).`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case recorded != "" && len(args) > 0:
				return invalidError{fmt.Errorf("simulate --recording takes no scenario file: %q was given", args[0])}
			case recorded != "" && compare:
				return invalidError{errors.New("simulate --compare runs a scenario: give a file in place of --recording, or --config to compare a recording")}
			case recorded == "" && other != "":
				return invalidError{errors.New("simulate --config compares a recording: give --recording")}
			case recorded == "-" && other == "-":
				return invalidError{errors.New("simulate reads one of --recording and --config from standard input: give a file for the other")}
			case recorded == "" && len(args) != 1:
				return invalidError{fmt.Errorf("simulate takes one scenario file, or - for standard input; %d were given", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case other != "":
				return compareRecording(cmd, recorded, other, output)
			case recorded != "":
				return runReplay(cmd, recorded, output)
			}
			return runScenario(cmd, args[0], output, compare)
		},
	}
	cmd.Flags().StringVar(&other, "config", "", "with --recording: compare what happened with this AgentConfiguration")
	cmd.Flags().StringVar(&recorded, "recording", "", "repeat the checks of this recording: a file of plimsoll recording export, or the directory of an agent. - is standard input")
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

// runReplay repeats the checks of a recording.
func runReplay(cmd *cobra.Command, name, output string) error {
	if output != "text" && output != "json" {
		return invalidError{fmt.Errorf("--output: %q: must be text or json", output)}
	}
	data, err := readRecording(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	out, replay := bufio.NewWriter(cmd.OutOrStdout()), simulate.NewReplay(data)
	if output == "json" {
		err = replay.WriteJSON(out)
		fmt.Fprintln(cmd.ErrOrStderr(), &replay.Summary)
	} else {
		err = replay.WriteText(out)
	}
	if flushed := out.Flush(); err == nil && flushed != nil {
		return fmt.Errorf("write what was replayed: %w", flushed)
	}
	if errors.Is(err, recording.ErrNoRecording) {
		return invalidError{fmt.Errorf("replay %s: %w", name, err)}
	}
	if err != nil {
		return fmt.Errorf("replay %s: %w", name, err)
	}
	return nil
}

// compareRecording compares a recording with what another configuration would have done.
func compareRecording(cmd *cobra.Command, name, file, output string) error {
	if output != "text" {
		return invalidError{fmt.Errorf("--output: %q: a comparison is text", output)}
	}
	text, err := readConfig(cmd.InOrStdin(), file)
	if err != nil {
		return err
	}
	other, err := agentconfig.ParseFile(text)
	if err != nil {
		return invalidError{fmt.Errorf("%s: %w", file, err)}
	}
	data, err := readRecording(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	comparison, err := simulate.CompareRecording(data, other)
	if errors.Is(err, recording.ErrNoRecording) {
		return invalidError{fmt.Errorf("compare %s: %w", name, err)}
	}
	if err != nil {
		return fmt.Errorf("compare %s: %w", name, err)
	}
	return comparison.WriteText(cmd.OutOrStdout())
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
