package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/whycmd"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/internal/why/lookup"
)

func whyCommand() *cobra.Command {
	var output, kubeconfig, agents string
	var timeout time.Duration
	cmd := whycmd.Command(whycmd.Program{
		Name:    "plimsoll",
		Version: version,
		Invalid: func(err error) error { return invalidError{err} },
		Run: func(cmd *cobra.Command, r *lookup.Request) error {
			if !slices.Contains([]string{"text", "json", "yaml"}, output) {
				return invalidError{fmt.Errorf("--output: %q: must be text, json or yaml", output)}
			}
			clients, err := client.DialAsUser(kubeconfig, "plimsoll-why/"+version)
			if err != nil {
				return err
			}
			r.Client, r.Cluster, r.AgentNamespace, r.Now = clients.Writing, clients.Name(), agents, time.Now
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			found, err := r.Find(ctx)
			if found == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w: not all records were read within %s: name the node of the pod with --node, or give a longer --timeout", err, timeout)
			}
			if found == nil {
				return err
			}
			return errors.Join(writeFound(cmd.OutOrStdout(), found, output), err)
		},
	})
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "text", "output format: text, json or yaml")
	f.StringVar(&kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: the files of KUBECONFIG, ~/.kube/config, or the service account of the pod")
	f.StringVar(&agents, "heartbeat-namespace", heartbeat.Namespace, "namespace of the agents' leases, for a pod that was not evicted")
	f.DurationVar(&timeout, "timeout", time.Minute, "maximum time to read the records")
	return cmd
}

// writeFound writes a result in a format.
func writeFound(out io.Writer, found *lookup.Result, format string) (err error) {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(found)
	case "yaml":
		var text []byte
		if text, err = strictyaml.Marshal(found); err == nil {
			_, err = out.Write(text)
		}
	default:
		err = found.WriteText(out)
	}
	if err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return nil
}
