package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/armcmd"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/preview"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/kube/user"
)

// confirmationHelp is what the client adds to the help of arm, disarm and cleanup.
const confirmationHelp = `

Before that, it shows the nodes that change, that follow already, and that cannot
follow, with the reason. On a terminal it asks for a confirmation. Without a terminal and
without --yes it changes nothing. With --max only the first nodes that change are written,
in the order of their names: repeat the command for the next ones. Of the nodes that
--selector selects, those without an agent are left out. --all holds for later nodes too,
unless --max is given.`

// armingExamples are the examples of the commands.
var armingExamples = map[arming.Setting]string{
	arming.Arm: `  # One node
  kubectl plimsoll arm node-7

  # The first five nodes of a pool that are not armed, and at the next run the next five
  kubectl plimsoll arm -l pool=batch --max 5

  # All nodes, without a confirmation
  kubectl plimsoll arm --all --yes`,
	arming.Disarm: `  # All nodes, at once
  kubectl plimsoll disarm --all --yes

  # The nodes of a pool
  kubectl plimsoll disarm -l pool=batch`,
	arming.Cleanup: `  # All nodes, before Plimsoll is uninstalled
  kubectl plimsoll cleanup --all

  # One node, before its agent is removed
  kubectl plimsoll cleanup node-7`,
}

var (
	errNoTerminal   = errors.New("nothing was changed: standard input is no terminal, which a confirmation needs: give --yes to go ahead without one")
	errNotConfirmed = errors.New("not confirmed: nothing was changed")
	errUnchanged    = errors.New("nothing was changed")
)

// armingCommand is kubectl plimsoll arm, disarm or cleanup.
type armingCommand struct {
	*armcmd.Command
	client   *client
	selector string
	max      int
	yes      bool
	// stopPreview bounds the preview of a stop that needs none.
	stopPreview time.Duration
}

// maxStopDelay bounds the delay of a stop by its preview. An API server under load may list thousands of Nodes slowly.
const maxStopDelay = 3 * time.Second

func (c *client) armingCommand(setting arming.Setting) *cobra.Command {
	x := &armingCommand{Command: armcmd.New(setting, "|-l LABELS", confirmationHelp), client: c, stopPreview: c.within(maxStopDelay)}
	cmd := x.Cobra
	cmd.GroupID, cmd.Example, cmd.ValidArgsFunction = groupChange, armingExamples[setting], c.nodes
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := x.check(args); err != nil {
			return invalid(err)
		}
		connection, err := c.flags.Dial(userAgent(cmd))
		if err != nil {
			return err
		}
		return x.run(cmd.Context(), connection)
	}
	f := cmd.Flags()
	f.StringVarP(&x.selector, "selector", "l", "", "`labels` of the nodes, such as pool=batch,zone!=a")
	f.IntVar(&x.max, "max", 0, "change at most `N` nodes; 0: all of them")
	f.BoolVarP(&x.yes, "yes", "y", false, "go ahead without a confirmation")
	complete(cmd, "selector", cobra.NoFileCompletions)
	if f.Lookup("accept-findings") != nil {
		complete(cmd, "accept-findings", findings)
	}
	return cmd
}

func (x *armingCommand) check(args []string) error {
	if err := x.Check(args, "--selector", x.selector != ""); err != nil {
		return err
	}
	nodes := collect.Request{Selector: x.selector}
	if err := nodes.Validate(); err != nil {
		return err
	}
	if x.max < 0 {
		return fmt.Errorf("--max: %d: must be at least 0", x.max)
	}
	return nil
}

func (x *armingCommand) run(ctx context.Context, connection *user.Connection) error {
	r, notes := &x.Request, x.client.streams.ErrOut
	r.Client, r.Cluster, r.Now = connection.Client, connection.Name(), connection.Now
	r.Namespace = x.client.agents
	r.Out, r.Progress = x.client.streams.Out, notes
	plan, fault := x.plan(ctx, connection.Now)
	switch {
	case plan == nil && x.needsNoPlan():
		fmt.Fprintf(notes, "There is no preview: %s\n", signals.PrintableLines(fault.Error()))
		return r.Run(ctx)
	case plan == nil && x.previewAlone():
		return errors.Join(fault, invalid(errNoTerminal))
	case plan == nil || fault != nil && r.Setting == arming.Arm: // nodes that do not exist keep no others armed
		return errors.Join(fault, errUnchanged)
	}
	fmt.Fprint(notes, plan.Text(r.Cluster, r.Namespace))
	if plan.Idle() {
		return errors.Join(fault, x.idle(plan))
	}
	if err := x.confirm(ctx, plan.Question()); err != nil {
		return errors.Join(fault, err)
	}
	r.Nodes, r.All = plan.Write(), !plan.ToNodes()
	return errors.Join(fault, r.Run(ctx))
}

// needsNoPlan reports whether it is a stop of nodes that are known without a plan: it goes ahead if the state of the cluster
// cannot be read.
func (x *armingCommand) needsNoPlan() bool {
	return x.Request.Setting == arming.Disarm && x.yes && x.selector == "" && x.max == 0
}

// previewAlone reports whether the command ends with its preview: a confirmation is neither given nor possible.
func (x *armingCommand) previewAlone() bool { return !x.yes && !x.client.interactive }

// plan returns the effect of the setting. Returns an error if it is unknown, or if there is no node with an agent; beside a
// plan, the error has named nodes that do not exist.
func (x *armingCommand) plan(ctx context.Context, now func() time.Time) (*preview.Plan, error) {
	r, bound := &x.Request, x.Request.Timeout
	if x.needsNoPlan() || r.Setting == arming.Disarm && x.previewAlone() {
		bound = min(bound, x.stopPreview)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	from := collect.Request{Client: r.Client, Namespace: r.Namespace, Names: r.Nodes, Selector: x.selector}
	request := preview.Request{Setting: r.Setting, All: r.All, Named: len(r.Nodes) > 0, Max: x.max, Accepted: r.Accepted}
	if r.Setting == arming.Arm { // what the ConfigMap has keeps no node armed
		var err error
		if request.ConfigMap, err = from.Arming(ctx); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, r.Cluster)
		}
	}
	nodes, err := from.Nodes(ctx)
	if err != nil && len(nodes) == 0 {
		return nil, fmt.Errorf("%w (%s)", err, r.Cluster)
	}
	plan := preview.New(request, nodes, now())
	switch {
	case x.selector != "" && len(nodes) == 0:
		return nil, fmt.Errorf("--selector: %q: no node of %s has these labels", x.selector, r.Cluster)
	case plan.ToNodes() && !plan.Named && plan.Count(preview.Missing) == len(plan.Nodes):
		return nil, fmt.Errorf("no agent of these nodes has a lease in the namespace %s of %s: for agents in another namespace, give --heartbeat-namespace", r.Namespace, r.Cluster)
	}
	return plan, err
}

// idle reports that there is nothing to write. Returns an error if nodes do not follow nevertheless.
func (x *armingCommand) idle(plan *preview.Plan) error {
	kept := plan.Count(preview.Blocked)
	if x.Request.Setting == arming.Arm {
		kept += plan.Count(preview.Silent)
	}
	if kept > 0 {
		return fmt.Errorf("%w, and %d nodes do not follow: see above", errUnchanged, kept)
	}
	_, err := fmt.Fprintln(x.client.streams.Out, "There is nothing to change")
	return err
}

// maxAnswer bounds an answer in bytes.
const maxAnswer = 1 << 10

// confirm asks for a confirmation, unless the flag has given it. Returns errNoTerminal without a terminal, and
// errNotConfirmed for every answer but yes.
func (x *armingCommand) confirm(ctx context.Context, question string) error {
	switch {
	case x.yes:
		return nil
	case x.previewAlone():
		return invalid(errNoTerminal)
	}
	fmt.Fprintf(x.client.streams.ErrOut, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read of a terminal does not end with the context
		line, _ := bufio.NewReader(io.LimitReader(x.client.streams.In, maxAnswer)).ReadString('\n') // an error is no yes
		answer <- line
	}()
	select {
	case <-ctx.Done():
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	}
	return errNotConfirmed
}
