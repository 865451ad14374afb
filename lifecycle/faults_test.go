package lifecycle

import (
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// hanging answers nothing until the request is given up.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// refusing is a server that is not there.
func refusing(*http.Request) (*http.Response, error) {
	return nil, errors.New("connect: connection refused")
}

// notFoundByAProxy says 404 without being an API server.
func notFoundByAProxy(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}},
		Body: io.NopCloser(strings.NewReader("<h1>not here</h1>")),
	}, nil
}

// busy asks for patience.
func busy(*http.Request) (*http.Response, error) {
	answer := failure(apierrors.NewTooManyRequests("later", 30))
	answer.Header.Set("Retry-After", "30")
	return answer, nil
}
