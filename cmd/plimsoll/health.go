package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/healthz"
)

// healthSocket is the socket of agent and controller in the chart.
const healthSocket = "/run/plimsoll/health.sock"

// errUnhealthy is the error of a check that was answered and failed.
var errUnhealthy = errors.New("the check failed")

func healthCommand() *cobra.Command {
	var socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health livez|readyz|PATH",
		Short: "Query the health of the agent or controller in this container",
		Long: `Asks the process that serves --health-socket, and prints the answer: livez and
readyz with every check, or any other path that it serves, such as /metrics or
'/explain?node=NAME'. The exit status is 0 if the answer is 200, else 1.
Kubelets run it as an exec probe.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return invalidError{errors.New("plimsoll health needs one of livez, readyz or a path such as /metrics")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			status, text, err := healthz.Get(ctx, socket, healthPath(args[0]))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(text))
			if status != http.StatusOK {
				return errUnhealthy
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", healthSocket, "Unix socket of the process (its --health-socket)")
	cmd.Flags().DurationVar(&timeout, "timeout", 4*time.Second, "maximum time to wait for an answer")
	return cmd
}

// healthPath returns the path of a check.
func healthPath(check string) string {
	switch {
	case strings.HasPrefix(check, "/"):
		return check
	case strings.Contains(check, "?"):
		return "/" + check
	}
	return "/" + check + "?verbose"
}
