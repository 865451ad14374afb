package user

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Exec runs a command in a container of a pod, as kubectl exec does without input: over a WebSocket, or over SPDY where
// the server refuses one. It ends with the context, though the command may run on. Returns the error of the connection, and
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
	var refusal error // of the WebSocket
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		if failure, is := errors.AsType[*httpstream.UpgradeFailureError](err); is {
			refusal = failure.Cause
		}
		return refusal != nil || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("prepare a connection to the API server: %w", err)
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	// Over SPDY the reason of a refusal is a text alone.
	if err != nil && apierrors.IsForbidden(refusal) && strings.HasPrefix(err.Error(), "unable to upgrade connection") {
		return refusal
	}
	return err
}
