package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"plimsoll.dev/plimsoll/internal/doctor"
)

// KubeletProcess is the process of the node's kubelet. A kubelet reads its configuration only at its start, so
// that another process may have another one. The zero value is no process.
type KubeletProcess struct {
	procRoot string
	comm     *os.File // of no content once the process has ended
}

// FindKubelet returns the kubelet among the processes of procRoot. It returns the zero value if there is
// none, as on k3s, where the kubelet is part of the server's process. [KubeletProcess.Close] closes it.
func FindKubelet(procRoot string, all []doctor.Process) KubeletProcess {
	i := slices.IndexFunc(all, isKubelet)
	if i < 0 {
		return KubeletProcess{}
	}
	file, err := os.Open(filepath.Join(procRoot, strconv.Itoa(all[i].PID), "comm"))
	if err != nil {
		return KubeletProcess{} // it has ended since
	}
	return KubeletProcess{procRoot: procRoot, comm: file}
}

// Replaced reports whether the process has ended and another process of a kubelet runs. It is false while
// no kubelet runs, and for the zero value. It costs a read; once the process has ended, a list of all processes.
func (k KubeletProcess) Replaced() bool {
	if k.comm == nil || !k.ended() {
		return false
	}
	all, _ := processes(k.procRoot)
	return slices.ContainsFunc(all, isKubelet)
}

func (k KubeletProcess) ended() bool {
	n, _ := k.comm.ReadAt(make([]byte, 1), 0)
	return n == 0
}

// Close releases the process.
func (k KubeletProcess) Close() {
	_ = k.comm.Close() // of none, an error
}
