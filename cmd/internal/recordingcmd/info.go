package recordingcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Info returns the command that describes a recording.
func (p *Program) Info() *cobra.Command {
	from := source{p, p.RecordingDir}
	cmd := &cobra.Command{
		Use:   "info " + from.usage(),
		Short: "Describe a recording: its node, its agents, and what it covers",
		Long: `Describes each run of an agent in a recording: version, node, kernel, the time
covered, the number of checks and decisions, pods that were evicted, processes
that the OOM killer killed, steps of the clock, and what is missing. Times are
UTC.`,
		Example: "  # What a recording covers\n  " + p.Name + " recording info incident.recording",
		Args:    from.check,
	}
	from.addFlag(cmd, "recording-dir")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, name, err := from.read(cmd, args)
		if err != nil {
			return err
		}
		info := recording.Describe(data)
		if len(info.Runs) == 0 {
			return p.Invalid(fmt.Errorf("describe %s: %w", name, recording.ErrNoRecording))
		}
		_, err = io.WriteString(cmd.OutOrStdout(), recording.Printable(describe(&info)))
		return err
	}
	return cmd
}

// describe describes a recording as text.
func describe(info *recording.Info) string {
	var b strings.Builder
	for i := range info.Runs {
		r := &info.Runs[i]
		h := r.Header
		fmt.Fprintf(&b, "agent %s on node %s, Linux %s, cgroup v%d, boot %s\n", h.Version, orUnknown(h.Node), orUnknown(h.Kernel), h.CgroupVersion, orUnknown(h.BootID))
		fmt.Fprintf(&b, "  recorded   from %s to %s, %s, segments: %d\n", Moment(r.From), Moment(r.To), Size(r.Bytes), r.Segments)
		fmt.Fprintf(&b, "  checks     %d periodic, %d early; %d ranked pods or collected garbage, and %d found the same as one before\n", r.Periodic, r.Early, r.Considered, r.Brief)
		fmt.Fprintf(&b, "  decisions  %d; evictions by the agent: %d, in dry run: %d with repetitions\n", r.Decisions, r.Evicted, r.DryRun)
		fmt.Fprintf(&b, "  pods       up to %d, measured %d times; %d ended as evicted, by any program\n", r.MaxPods, r.Usages, r.PodsEvicted)
		if r.OOMKills != recording.Unknown {
			fmt.Fprintf(&b, "  OOM killer %d processes killed on the machine\n", r.OOMKills)
		}
		if r.Lost > 0 {
			fmt.Fprintf(&b, "  missing    %d checks and decisions: the disk was full or too slow\n", r.Lost)
		}
		if r.Cut > 0 {
			fmt.Fprintf(&b, "  in part    %d checks: their pods have more containers and volumes than are recorded\n", r.Cut)
		}
		for _, s := range r.ClockSteps {
			fmt.Fprintf(&b, "  clock      set by %s at %s\n", s.By, Moment(s.At))
		}
	}
	if info.More {
		b.WriteString("there are more runs: export a shorter time\n")
	}
	if info.Damage != (recording.Damage{}) {
		fmt.Fprintf(&b, "not readable: %s\n", &info.Damage)
	}
	return b.String()
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
