package user

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Exec runs a command in a container of a pod, as kubectl exec does without input: over a WebSocket, or over SPDY where
// that is not possible. It ends with the context, though the command may run on. Returns the error of the connection, and
// one with a method ExitStatus if the command failed.
func (c *Connection) Exec(ctx context.Context, namespace, pod, container string, command []string, stdout, stderr io.Writer) error {
	request := c.Client.Core().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		request.Param("command", word)
	}
	address := request.URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, address.String())
	if err != nil {
		return fmt.Errorf("prepare a WebSocket to the API server: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, address)
	if err != nil {
		return fmt.Errorf("prepare a connection to the API server: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("prepare a connection to the API server: %w", err)
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
}
