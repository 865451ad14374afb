package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// procDir is the mountpoint of /proc.
const procDir = "/proc"

// leastRoom is the memory that a command needs beside the agent in its container.
const leastRoom = 32 << 20

// heapPercent is the growth of the heap until Go collects garbage, of a command beside an agent.
const heapPercent = 30

// useLittle bounds what a command takes of its node: memory and threads. If memory is short in the container of the
// agent, the kernel ends this process first, as far as it chooses one.
func useLittle() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(heapPercent)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // without it, the command works as well
}

// checkRoom returns an error if less than need is left below the memory limit of the own cgroup: the kernel may end the
// whole container of the agent for memory that this command takes (memory.oom.group, cgroup v2). Without a limit,
// or if it cannot be read, there is no error.
func checkRoom(proc, what string, need int64) error {
	left, limited, err := cgroup.OwnMemoryLeft(proc)
	if err != nil || !limited || left >= uint64(need) {
		return nil
	}
	return fmt.Errorf("%s: the memory limit of this container leaves %s, less than the %s that the command needs beside the agent: "+
		"raise the limit (agent.resources.limits.memory of the chart), or read the files on the node", what, recordingcmd.Size(int64(left)), recordingcmd.Size(need))
}

// checkWholeRoom is checkRoom for a command that holds all segments of a directory, of a total size.
func checkWholeRoom(proc string, total int64) error {
	return checkRoom(proc, "read a whole recording", leastRoom+total+total/2)
}

// checkExportRoom is checkRoom for the export of a directory, which holds one segment at a time.
func checkExportRoom(proc, dir string) error {
	need := int64(leastRoom)
	segments, _ := ring.List(dir) // the export reports its error
	for _, s := range segments {
		need = max(need, leastRoom+s.Size+s.Size/2)
	}
	return checkRoom(proc, "export a recording", need)
}
