package trial

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// FreeAddress returns an address without a listener. Its IP address is that of this process alone: a
// program beside it could get the port of 127.0.0.1 before the agent listens.
func FreeAddress(ctx context.Context) (string, error) {
	pid := os.Getpid() // at most 1<<22
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16, pid>>8&0xff, pid&0xff))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Get requests a page of the agent's HTTP server once. Whatever the status, it returns the text.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
