// Package process prepares the process of a program for its work: the log, and Go's
// share of the memory limit.
//
// Agent and controller do both at their start, before anything else runs. Nothing here
// knows which of the two it is.
package process

import (
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// NewLogger returns a logger that writes to lines, as JSON if the format is json, else
// as text. Libraries of Kubernetes log through it too. Decisions do not pass through it.
func NewLogger(format string, verbosity int64, lines io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(verbosity)}
	var handler slog.Handler = slog.NewTextHandler(lines, options)
	if format == "json" {
		handler = slog.NewJSONHandler(lines, options)
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log
}
