package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/internal/recording"
)

// ErrDiffers is the error of a replay with other decisions than those recorded.
var ErrDiffers = errors.New("the replay decides otherwise than the recording: a defect of this program, or a recording of another version")

// differing is the output of -o json for a check with other decisions than those recorded.
type differing struct {
	At       string          `json:"at"`
	Recorded json.RawMessage `json:"recorded"`
	Replayed json.RawMessage `json:"replayed"`
}

// WriteJSON replays the recording and writes one JSON object per repeated check: its recorded decisions,
// or, if they differ, the recorded and the replayed ones. It returns [ErrDiffers] in that case, else the
// first error of the replay or of w.
func (r *Replay) WriteJSON(w io.Writer) error {
	err := r.Run(func(c *Repeated) error {
		switch {
		case c.Outcome == nil:
			return nil
		case !c.Exact, bytes.Equal(c.Recorded, c.Replayed):
			_, err := fmt.Fprintf(w, "%s\n", c.Recorded)
			return err
		}
		return json.NewEncoder(w).Encode(differing{seconds(c.At), c.Recorded, c.Replayed})
	})
	return r.verdict(err)
}

// WriteText replays the recording and writes the checks in which the decisions changed, and what was
// repeated. Its errors are those of WriteJSON.
func (r *Replay) WriteText(w io.Writer) error {
	last := ""
	err := r.Run(func(c *Repeated) error {
		var b strings.Builder
		if c.Begins {
			b.WriteString(r.heading(c))
			last = ""
		}
		switch o := c.Outcome; {
		case o == nil:
		case c.Exact && !bytes.Equal(c.Recorded, c.Replayed):
			fmt.Fprintf(&b, "%8s  DIFFERS\n%srecorded %s\n%sreplayed %s\n", seconds(c.At), indent, c.Recorded, indent, c.Replayed)
		case c.Check.Brief: // it found what one before has found
		default:
			if now := newsOf(o); now != last || o.Acted() {
				last = now
				s := &c.Check.Snapshot
				b.WriteString(paragraph(&Step{At: c.At, Kind: s.Kind, Node: s.Node}, o, c.Machine))
				if !bytes.Equal(c.Recorded, c.Replayed) {
					fmt.Fprintf(&b, "%snot exact; recorded is %s\n", indent, c.Recorded)
				}
			}
		}
		_, err := io.WriteString(w, recording.Printable(b.String()))
		return err
	})
	if err = r.verdict(err); err == nil || errors.Is(err, ErrDiffers) {
		if _, failed := fmt.Fprintf(w, "\n%s\n", &r.Summary); failed != nil {
			return failed
		}
	}
	return err
}

func (r *Replay) verdict(err error) error {
	if err == nil && r.Summary.Differ > 0 {
		return ErrDiffers
	}
	return err
}

// heading describes a run at its first check.
func (r *Replay) heading(c *Repeated) string {
	h := r.run
	system := fmt.Sprintf("cgroup v%d", h.CgroupVersion)
	if h.Kernel != "" {
		system += ", Linux " + h.Kernel
	}
	text := fmt.Sprintf("%8s  agent %s on node %s (%s), from %s", seconds(c.At), h.Version, h.Node, system, c.Check.At().UTC().Format(time.RFC3339))
	policy, err := r.policy(r.key)
	if err != nil || len(policy.Thresholds) == 0 {
		return text + "\n"
	}
	var thresholds []string
	for _, t := range policy.Thresholds {
		thresholds = append(thresholds, t.String())
	}
	return text + "\n" + indent + "thresholds: " + strings.Join(thresholds, ", ") + "\n"
}

// newsOf returns what distinguishes the decisions of a check from those of the next one, without
// amounts.
func newsOf(o *agent.Outcome) string {
	parts := slices.Concat(o.Verdict.Conditions.Names(), []string{"met"}, o.Verdict.GracePassed.Names(), []string{"unknown"}, o.Verdict.Unknown.Names(), []string{o.Blocked, o.Limit.By.String()})
	if t := o.Verdict.Target; t != nil {
		parts = append(parts, t.String())
	}
	if o.NoneHelps() {
		parts = append(parts, "none helps")
	}
	if o.Verdict.Reason == eviction.Grace {
		parts = append(parts, "grace")
	}
	return strings.Join(parts, " ")
}

// String describes what a replay has repeated.
func (s *ReplaySummary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checks: %d, from %s to %s, runs of the agent: %d\n%d decide the same, %d otherwise", s.Checks, s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339), s.Runs, s.Same, s.Differ)
	if s.Unknown > 0 {
		fmt.Fprintf(&b, "\n%d were not repeated: the state of the decisions before them is not recorded", s.Unknown)
	}
	if s.Approximate > 0 {
		fmt.Fprintf(&b, "\n%d were repeated, but not compared: the state before them, or what they have measured, is recorded in part", s.Approximate)
	}
	if s.Damage.Any() {
		fmt.Fprintf(&b, "\nnot readable: %s", &s.Damage)
	}
	return b.String()
}
