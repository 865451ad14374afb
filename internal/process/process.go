// Package process prepares the process of a program: its log, and Go's share of the memory
// limit.
//
// Agent and controller do both at their start, before anything else runs. Nothing here
// depends on the program.
package process

import (
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// A Level is the level of a log, which may change while it is written.
type Level struct{ slog.LevelVar }

// Set sets the level by a verbosity: 0 is that of information, and more of it has a larger one.
func (l *Level) Set(verbosity int64) { l.LevelVar.Set(slog.LevelInfo - slog.Level(verbosity)) }

// NewLogger returns a logger that writes to lines, as JSON if the format is json, else
// as text. Libraries of Kubernetes log through it too. Decisions do not pass through it.
func NewLogger(format string, level slog.Leveler, lines io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(lines, options)
	if format == "json" {
		handler = slog.NewJSONHandler(lines, options)
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log
}

// programText is what the program's own code takes of a memory limit besides Go's
// memory, in bytes: 30 MiB resident, which the agent locks.
const programText = 32 << 20

// SetMemoryLimit has Go collect garbage more often before the process would exceed
// the limit of its cgroup, unless GOMEMLIMIT is set. Without a limit, or if none can
// be found, nothing changes.
func SetMemoryLimit(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, limited, err := cgroup.OwnMemoryLimit("/proc")
	if err != nil {
		log.Warn("Found no memory limit of the own cgroup", "error", err, "remedy", "set GOMEMLIMIT")
	}
	if !limited {
		return
	}
	heap := memoryLimitFor(limit)
	debug.SetMemoryLimit(heap)
	log.Info("Set the memory limit of Go", "bytes", heap, "cgroupBytes", limit)
}

// memoryLimitFor returns 80 % of what the program's code leaves of a limit, and at
// least half of the limit. The rest is for pages that Go has freed: the agent locks
// its memory (MCL_ONFAULT), so that they stay resident.
func memoryLimitFor(limit uint64) int64 {
	limit = min(limit, math.MaxInt64/2)
	heap := limit / 2
	if limit > programText {
		heap = max(heap, (limit-programText)/10*8)
	}
	return int64(heap)
}
