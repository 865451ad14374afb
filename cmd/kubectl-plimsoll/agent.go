package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/kube/user"
)

// agent returns the agent of a node, and the connection by which it is reached. Returns an error if the name is not that of
// a node, or no API server is known.
func (c *client) agent(cmd *cobra.Command, node string) (*agentexec.Agent, *user.Connection, error) {
	if err := agentexec.CheckNode(node); err != nil {
		return nil, nil, invalid(err)
	}
	connection, err := c.flags.Dial(userAgent(cmd))
	if err != nil {
		return nil, nil, err
	}
	a := &agentexec.Agent{Client: connection.Client, Executor: connection, Cluster: connection.Name(), Namespace: c.agents, Node: node}
	if c.executor != nil {
		a.Executor = c.executor
	}
	return a, connection, nil
}

// exportNode exports the recording of the agent of a node.
func (c *client) exportNode(ctx context.Context, cmd *cobra.Command, node string, args []string, out io.Writer) error {
	agent, _, err := c.agent(cmd, node)
	if err != nil {
		return err
	}
	if _, err = agent.Export(ctx, args, out); errors.Is(err, agentexec.ErrNone) {
		return recordingcmd.NoAgentError{Err: err}
	}
	return err
}
