package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// PlanFile is the path of the plan for init.
const PlanFile = "/plan"

// Here is the machine's directory for the files of the working directory.
const Here = "/here"

// Variables on the kernel's command line that make the machine boot a root file system with
// systemd instead of running the plan alone. Their values are the block devices with the root file
// system, and with the files of the working directory.
const (
	RootVariable  = "PLIMSOLL_ROOT"
	FilesVariable = "PLIMSOLL_FILES"
)

// Output is the machine's disk for the output of a command. The other two are the root file system and
// the files of the working directory.
const Output = "/dev/vdc"

// Command is one line of the plan.
type Command struct {
	Args  []string      `json:"args"`          // the program's path in the machine first
	Env   []string      `json:"env,omitempty"` // NAME=VALUE, beyond what init gives every command
	Dir   string        `json:"dir"`           // working directory, absolute
	Limit time.Duration `json:"limit"`         // nanoseconds in JSON; then everything in the machine is killed
}

func (c *Command) check() error {
	switch {
	case len(c.Args) == 0 || c.Args[0] == "":
		return errors.New("names no program")
	case !strings.HasPrefix(c.Dir, "/"):
		return fmt.Errorf("working directory %q is not absolute", c.Dir)
	case c.Limit <= 0:
		return fmt.Errorf("time limit %v: use more than 0", c.Limit)
	}
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("environment %q: use NAME=VALUE", e)
		}
	}
	return nil
}

// EncodePlan encodes the plan's file. Returns the error of the JSON encoder.
func EncodePlan(plan []Command) ([]byte, error) {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for i := range plan {
		if err := plan[i].check(); err != nil {
			return nil, fmt.Errorf("command %d of the plan %w", i, err)
		}
		if err := lines.Encode(&plan[i]); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// DecodePlan decodes the plan's file. Returns an error if the plan is incomplete: a part of it
// would pass as a success.
func DecodePlan(text []byte) ([]Command, error) {
	var plan []Command
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	for {
		var c Command
		switch err := lines.Decode(&c); {
		case errors.Is(err, io.EOF) && len(plan) > 0:
			return plan, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("the plan has no command")
		case err != nil:
			return nil, fmt.Errorf("command %d of the plan: %w", len(plan), err)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("command %d of the plan %w", len(plan), err)
		}
		plan = append(plan, c)
	}
}
