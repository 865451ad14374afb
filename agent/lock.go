package agent

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

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

// ownScore is where the kernel keeps when the OOM killer takes a process:
// -1000 never, 1000 first.
const ownScore = "/proc/self/oom_score_adj"

// nodeCritical is the score that kubelets give to node-critical and to guaranteed
// pods: none of theirs is taken later. Going below needs CAP_SYS_RESOURCE.
const nodeCritical = -997

// ProtectFromOOM makes the kernel's OOM killer take the agent last.
func ProtectFromOOM() error {
	const score = "-999"
	err := os.WriteFile(ownScore, []byte(score), 0)
	if err == nil || protected() {
		return nil
	}
	return fmt.Errorf("set oom_score_adj to %s: %w", score, err)
}

// protected reports whether no pod comes after this process already.
func protected() bool {
	text, err := os.ReadFile(ownScore)
	return err == nil && takenLast(string(text))
}

func takenLast(text string) bool {
	score, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && score <= nodeCritical
}
