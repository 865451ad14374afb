package lifecycle

import (
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// hanging answers nothing until the end of the request.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// refusing is an absent server.
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

// busy answers 429 with a Retry-After.
func busy(*http.Request) (*http.Response, error) {
	answer := failure(apierrors.NewTooManyRequests("later", 30))
	answer.Header.Set("Retry-After", "30")
	return answer, nil
}
