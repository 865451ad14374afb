package disarmfile

import (
	"fmt"
	"io"

	"plimsoll.dev/plimsoll/internal/arming"
)

// Apply creates the file for [arming.Disarm], removes it for [arming.Arm], and writes the result to out. Returns an error
// if the file cannot be changed.
func (f File) Apply(setting arming.Setting, out io.Writer) error {
	change := f.Remove
	if setting == arming.Disarm {
		change = func() error { return f.Create("by plimsoll disarm") }
	}
	if err := change(); err != nil {
		return fmt.Errorf("%w: run it as root on the node, or in the agent's pod", err)
	}
	results := map[arming.File]string{
		arming.Present: "%s exists: an agent with this --disarm-file changes nothing\n",
		arming.Absent:  "%s does not exist: an agent with this --disarm-file follows the settings of the cluster and its flags\n",
	}
	_, err := fmt.Fprintf(out, results[f.State()], f)
	return err
}
