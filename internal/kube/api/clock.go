package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// errNoConnection is the error of a client without a connection, as in tests.
var errNoConnection = errors.New("the client has no connection of its own")

// ClockAhead returns how far the local clock is ahead of the server's, by the header of an answer. The header has whole
// seconds: half a second is the best estimate of the truncated part. The server wrote it at some time of the request, so
// that a slow one makes no difference: the result is the smallest possible. Returns an error if there is no answer with a
// time.
func ClockAhead(ctx context.Context, client Interface, now func() time.Time) (time.Duration, error) {
	requester, is := client.Core().(*rest.RESTClient)
	if !is || requester == nil {
		return 0, errNoConnection
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, requester.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return 0, err
	}
	begun := now()
	answer, err := requester.Client.Do(request)
	if err != nil {
		return 0, err
	}
	ended := now()
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("the server's answer has no time in its header Date: %w", err)
	}
	written := date.Add(time.Second / 2)
	return max(begun.Sub(written), min(0, ended.Sub(written))), nil
}
