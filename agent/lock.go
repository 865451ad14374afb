package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LockMemory locks the pages of the agent in memory, so that checks and kills never wait for a
// page to be read back while memory is short. Pages are locked as they are touched (MCL_ONFAULT):
// locking all mapped pages would cost hundreds of megabytes. It returns an error if the kernel
// refuses mlockall(2).
func LockMemory() error {
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall with MCL_ONFAULT: %w", err)
	}
	return nil
}

// ownScore is the file for the process's OOM score: -1000 is never killed, 1000 is killed first.
const ownScore = "/proc/self/oom_score_adj"

// nodeCritical is the score that kubelets give to node-critical and to Guaranteed pods. None of
// theirs is lower. A lower score needs CAP_SYS_RESOURCE.
const nodeCritical = -997

// ProtectFromOOM makes the kernel's OOM killer take the agent last. It returns an error if the
// score can not be set and no earlier setting protects the agent.
func ProtectFromOOM() error {
	const score = "-999"
	err := os.WriteFile(ownScore, []byte(score), 0)
	if err == nil || protected() {
		return nil
	}
	return fmt.Errorf("set oom_score_adj to %s: %w", score, err)
}

// protected reports whether the present score is at most that of node-critical pods.
func protected() bool {
	text, err := os.ReadFile(ownScore)
	return err == nil && killedLast(string(text))
}

func killedLast(text string) bool {
	score, err := strconv.Atoi(strings.TrimSpace(text))
	return err == nil && score <= nodeCritical
}
