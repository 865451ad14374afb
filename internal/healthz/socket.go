package healthz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// socketMode permits connections by the user of the process, and by root.
const socketMode = 0o600

// ListenSocket opens a Unix socket that only the user of this process can connect to. It replaces
// the socket of an earlier process. Returns an error if another process listens there, or if the
// path is no socket.
func ListenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the health socket: %w", err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("serve endpoints on the socket %s: %w", path, err)
	}
	// The descriptor's mode becomes the mode of the file at its creation.
	own := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), socketMode) })
		return errors.Join(err, failed)
	}}
	l, err := own.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("serve endpoints on a socket: %w: give another --health-socket, or none", err)
	}
	return l, nil
}

// removeStale removes the socket of a process that has ended.
func removeStale(ctx context.Context, path string) error {
	there, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if there.Mode().Type() != os.ModeSocket {
		return errors.New("this is no socket: remove it, or give another --health-socket")
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return errors.New("another process listens there: give another --health-socket")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// maxAnswer bounds the response that [Get] reads, in bytes. The metrics of a controller have nine series
// per zone, each of at most 250 bytes: less than 256 KiB in 100 zones.
const maxAnswer = 1 << 20

// Get requests a path from the server on a Unix socket, and returns its status and its response.
// Returns an error if there is no response before ctx ends, or if it is larger than 1 MiB.
func Get(ctx context.Context, socket, path string) (status int, text string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://plimsoll"+path, nil)
	if err != nil {
		return 0, "", fmt.Errorf("request %s from %s: %w", path, socket, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("request %s from %s: %w", path, socket, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the response is larger than %d KiB", maxAnswer>>10)
	}
	if err != nil {
		return 0, "", fmt.Errorf("request %s from %s: %w", path, socket, err)
	}
	return answer.StatusCode, string(body), nil
}
