package lifecycle

import (
	"errors"
	"net/http"
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
