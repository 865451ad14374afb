package lifecycle

import (
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// hanging does not answer until the request is cancelled.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// refusing is an unreachable server.
func refusing(*http.Request) (*http.Response, error) {
	return nil, errors.New("connect: connection refused")
}

// notFoundByAProxy answers 404 without being an API server.
func notFoundByAProxy(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}},
		Body: io.NopCloser(strings.NewReader("<h1>not here</h1>")),
	}, nil
}

// busy asks for a retry after 30 s.
func busy(*http.Request) (*http.Response, error) {
	answer := failure(apierrors.NewTooManyRequests("later", 30))
	answer.Header.Set("Retry-After", "30")
	return answer, nil
}
