package agent

import (
	"runtime"
	"sync"
)

// reservedThreads is the number of threads beyond one for each processor. On a machine with 2
// processors the agent has 11, and at most 13 were seen with evictions and garbage collection under
// way. Hanging file systems can hold more. Each costs 16 KiB of address space for its stack and about
// as much kernel memory.
const reservedThreads = 32

// ReserveThreads starts the threads that Go's scheduler may need later. The scheduler starts one when
// goroutines wait in system calls and no thread is idle, and ends the program if the kernel refuses
// it. That happens when a fork bomb has used up the node's PIDs, and the agent is what ends the bomb.
// Go does not end idle threads.
func ReserveThreads() {
	var here, all sync.WaitGroup
	release := make(chan struct{})
	count := runtime.GOMAXPROCS(0) + reservedThreads
	here.Add(count)
	for range count {
		all.Go(func() {
			runtime.LockOSThread() // a thread for each
			defer runtime.UnlockOSThread()
			here.Done()
			<-release
		})
	}
	here.Wait()
	close(release)
	all.Wait()
}
