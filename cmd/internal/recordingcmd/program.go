// Package recordingcmd is the commands of both programs that work on recordings: their flags, help and output. The
// programs differ in what they read, the directory of an agent or files alone, and in whether they simulate.
package recordingcmd

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// Program is a program with the commands.
type Program struct {
	Name    string // as users type it
	Invalid func(error) error
	// Read reads what an argument names; - is the input.
	Read func(in io.Reader, name string) ([]byte, error)
	// Parts returns the segments of a directory one after the other, so that an export needs memory for one of them; nil if the
	// name is no directory.
	Parts func(name string) iter.Seq2[[]byte, error]
	// Room returns an error if too little memory is left for an export of a directory beside an agent; nil: it is not checked.
	Room func(name string) error
	// RecordingDir and DecisionDir are the directories of an agent that are read if no file is given. Empty: a file must
	// be given.
	RecordingDir, DecisionDir string
	// WriteScenario writes a recording as a scenario; nil: the program has no scenarios.
	WriteScenario func(recording []byte, out io.Writer) error
	// ExportNode runs plimsoll with the given arguments at the agent of a node, and writes what it exports; nil: the
	// program exports files alone. Without an agent on the node, its error is a [NoAgentError].
	ExportNode func(ctx context.Context, cmd *cobra.Command, node string, args []string, out io.Writer) error
}

// NeedsCommand returns the body of a command that only has commands below it.
func (p *Program) NeedsCommand(names string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		return p.Invalid(fmt.Errorf("%s needs a command: %s", cmd.CommandPath(), names))
	}
}

// noArguments returns an invalid error if there are arguments beside flags.
func (p *Program) noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return p.Invalid(fmt.Errorf("%s takes no arguments beside flags: %q was given", cmd.CommandPath(), args[0]))
	}
	return nil
}

// source is the argument of a command: a file, - for standard input, or with a directory of an agent another one of these.
type source struct {
	program *Program
	dir     string // read without an argument; empty: there must be one
}

// usage returns the argument in the usage of a command.
func (s *source) usage() string {
	if s.dir == "" {
		return "FILE"
	}
	return "[FILE]"
}

// addFlag adds the flag for the directory, if the program has one.
func (s *source) addFlag(cmd *cobra.Command, name string) {
	if s.dir != "" {
		cmd.Flags().StringVar(&s.dir, name, s.dir, "directory of the agent, if no file is given")
	}
}

// check returns an invalid error unless there is the argument, or none where the program has a directory.
func (s *source) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1 && s.dir != "":
		return s.program.Invalid(fmt.Errorf("%s takes one file or directory, or - for standard input; %d were given", cmd.CommandPath(), len(args)))
	case len(args) != 1 && s.dir == "":
		return s.program.Invalid(fmt.Errorf("%s takes one file, or - for standard input; %d were given", cmd.CommandPath(), len(args)))
	}
	return nil
}

// read reads the source, and returns its name too.
func (s *source) read(cmd *cobra.Command, args []string) (data []byte, name string, err error) {
	name = s.name(args)
	data, err = s.program.Read(cmd.InOrStdin(), name)
	return data, name, err
}

// name returns the name of the source.
func (s *source) name(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return s.dir
}

// parts returns the parts of the source, each with whole segments.
func (s *source) parts(cmd *cobra.Command, args []string) iter.Seq2[[]byte, error] {
	name := s.name(args)
	if s.program.Parts != nil {
		if parts := s.program.Parts(name); parts != nil {
			return parts
		}
	}
	return func(yield func([]byte, error) bool) {
		data, _, err := s.read(cmd, args)
		yield(data, err)
	}
}

// MaxBytes bounds a recording that is read at once.
const MaxBytes = 2 << 30

// ErrTooLarge returns the error for a recording that is larger than what is read at once.
func ErrTooLarge(name string) error {
	return fmt.Errorf("read the recording %s: it is larger than %d bytes", name, MaxBytes)
}

// ReadFile reads a file, or in for -. Returns an error if that fails, or if the recording is too large.
func ReadFile(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the recording: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the recording: %w", err)
	case len(data) > MaxBytes:
		return nil, ErrTooLarge(name)
	}
	return data, nil
}

// Moment formats a time; a zero one is a dash.
func Moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Size formats a number of bytes.
func Size(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1fMi", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1fKi", float64(bytes)/(1<<10))
	}
	return fmt.Sprint(bytes)
}
