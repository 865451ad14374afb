package process

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

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
