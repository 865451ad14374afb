package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/live/screen"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

const (
	// minTopInterval is the minimum time between two states.
	minTopInterval = 200 * time.Millisecond
	// topRepeat is the time after which a state without news is written, so that its reader knows that it is live.
	topRepeat = 5 * time.Second
)

// top are the flags of plimsoll top.
type top struct {
	dir, output        string
	watch              bool
	interval, duration time.Duration
	proc               string // the mountpoint of /proc
}

func topCommand() *cobra.Command {
	t := top{proc: procDir}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the present state of this node from the recording of its agent",
		Long: `Shows signals with their thresholds, the pod that would be evicted now, the memory of
pods, and the last decisions. It reads the newest part of what a running agent
records, and neither asks nor delays the agent. It needs about 8 MiB of memory. With
less than 32 MiB left below the memory limit of its container, it does not begin.

An agent records its periodic checks, and more of them near a threshold. Values
are those of the last recorded check, and of the last measurement of pods.

With --watch it prints the state again whenever there is news, and at least every
5 s: with -o json one line for each. kubectl plimsoll top shows it on another machine.

Exit status: 0 shown, 1 the recording can not be read, or too little memory is left,
2 a flag is not valid.`,
		Example: `  # The present state of this node
  plimsoll top

  # Of the node of a pod, for programs
  kubectl -n plimsoll-system exec POD -- /plimsoll top -o json

  # One line of JSON for each change, for five minutes
  plimsoll top -o json --watch --duration=5m`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&t.dir, "recording-dir", recordingDir, "directory of the agent")
	f.StringVarP(&t.output, "output", "o", "text", "output format: text, json or yaml")
	f.BoolVarP(&t.watch, "watch", "w", false, "print the state again whenever there is news")
	f.DurationVar(&t.interval, "interval", time.Second, "minimum time between two states of --watch")
	f.DurationVar(&t.duration, "duration", 0, "end --watch after this time. 0: never")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := t.check(); err != nil {
			return invalidError{err}
		}
		useLittle()
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		if t.duration > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, t.duration)
			defer cancel()
		}
		ticker := time.NewTicker(t.interval)
		defer ticker.Stop()
		return t.run(ctx, cmd.OutOrStdout(), ticker.C)
	}
	return cmd
}

// check returns an error for an invalid flag.
func (t *top) check() error {
	switch {
	case !slices.Contains([]string{"text", "json", "yaml"}, t.output):
		return fmt.Errorf("--output: %q: must be text, json or yaml", t.output)
	case t.interval < minTopInterval:
		return fmt.Errorf("--interval: %s: must be at least %s", t.interval, minTopInterval)
	case t.duration < 0:
		return fmt.Errorf("--duration: %s: must be at least 0", t.duration)
	}
	return nil
}

// run prints the state, and with watch again at each tick with news.
func (t *top) run(ctx context.Context, out io.Writer, ticks <-chan time.Time) error {
	if err := checkRoom(t.proc, "show the state of the node", leastRoom); err != nil {
		return err
	}
	f, err := ring.Follow(t.dir)
	if err != nil {
		return unlisted(err)
	}
	defer f.Close()
	tracker, written := live.NewTracker(), time.Time{}
	for {
		news := false
		for {
			e, err := f.Next()
			if err != nil {
				return err
			}
			if e == nil {
				break
			}
			tracker.Add(e)
			news = true
		}
		now := time.Now()
		if news || now.Sub(written) >= topRepeat {
			state := tracker.State(now)
			if damage := f.Damage(); damage.Any() {
				state.Notes = append(state.Notes, "Checks are missing: a part of the recording is damaged, or of a later version.")
			}
			if state.Node == "" && state.Check == nil && !t.watch {
				return fmt.Errorf("show the state of the node: %s has no segment of a recording: give the --recording-dir of an agent that records", t.dir)
			}
			if err := t.print(out, state, !written.IsZero()); err != nil {
				return err
			}
			written = now
		}
		if !t.watch {
			return nil
		}
		select {
		case <-ticks:
		case <-ctx.Done():
			return nil
		}
	}
}

// print writes a state in the format. again is whether another one is before it.
func (t *top) print(out io.Writer, state *live.State, again bool) error {
	var text []byte
	var err error
	switch t.output {
	case "json":
		text, err = state.Line()
	case "yaml":
		if text, err = strictyaml.Marshal(state); again {
			text = append([]byte("---\n"), text...)
		}
	default:
		if text = []byte(screen.Plain(state)); again {
			text = append([]byte("\n"), text...)
		}
	}
	if err == nil {
		_, err = recordingcmd.PatientWriter{Out: out, For: recordingcmd.Patience}.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write the state of the node: %w", err)
	}
	return nil
}
