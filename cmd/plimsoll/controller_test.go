package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Without an API server the controller reports an error and does not start.
func TestController_NeedsServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"controller"}, nil, io.Discard, &errs); status != exitFailed || !strings.Contains(errs.String(), "--kubeconfig") {
		t.Errorf("status %d: %s", status, errs.String())
	}
	errs.Reset()
	if status := run(t.Context(), []string{"controller", "--mode=both", "--node-eviction-rate=-1"}, nil, io.Discard, &errs); status != exitInvalid || strings.Count(errs.String(), "\n") != 2 {
		t.Errorf("status %d: %s", status, errs.String())
	}
}
