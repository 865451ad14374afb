package agent

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// gcPercent makes collections rarer than by default: the heap is a few
// megabytes, and a collection takes time when there is none.
const gcPercent = 200

// LockMemory keeps what the agent has touched in memory, so that looking and
// killing never wait for a page to be read back while memory is short. Pages
// are locked as they are touched (MCL_ONFAULT): locking all that is mapped
// would cost hundreds of megabytes.
func LockMemory() error {
	debug.SetGCPercent(gcPercent)
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall with MCL_ONFAULT: %w", err)
	}
	return nil
}

// ProtectFromOOM makes the kernel's OOM killer take the agent last.
func ProtectFromOOM() error {
	const score = "-999" // what the kubelet gives to node-critical pods is -997
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0); err != nil {
		return fmt.Errorf("set oom_score_adj to %s: %w", score, err)
	}
	return nil
}
