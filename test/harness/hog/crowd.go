package hog

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// region is a range of addresses.
type region struct{ begin, end uintptr }

func (r region) holds(address uintptr) bool { return r.begin <= address && address < r.end }

// unneeded is in the program's own data, which stays mapped.
var unneeded [128]region

// crowd creates count processes that wait to be killed, as spread does, but smaller ones: about
// 60 KiB each instead of 150, so that 16,000 fit into 2 GiB. Their common ancestor unmaps
// everything except its own code and stack, and every fork copies the rest.
func crowd(count int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, err := findUnneeded()
	if err != nil || count <= 0 {
		return err
	}
	pid, errno := fork()
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		shrink(n, count-1)
	}
	return nil
}

// findUnneeded lists the mappings that contain neither this program nor the stack nor, if libc
// is linked, its storage for this thread. The kernel writes to that storage (rseq) when it
// schedules the thread, and kills a process without it. It contains the list of robust locks;
// the kernel returns the address of that list.
func findUnneeded() (n int, err error) {
	var stack, storage, size uintptr
	stack = uintptr(unsafe.Pointer(&stack))
	if _, _, errno := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, 0, uintptr(unsafe.Pointer(&storage)), uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0, fmt.Errorf("find the storage of this thread: %w", errno)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer maps.Close()
	program, last := true, uintptr(0) // its segments come first, one behind the other
	for lines := bufio.NewScanner(maps); lines.Scan() && n < len(unneeded); {
		var r region
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &r.begin, &r.end); err != nil {
			return 0, fmt.Errorf("read /proc/self/maps: %w", err)
		}
		program = program && (last == 0 || r.begin == last)
		last = r.end
		if !program && !r.holds(stack) && !r.holds(storage) {
			unneeded[n] = r
			n++
		}
	}
	return n, nil
}

// shrink unmaps the first regions and then grows.
//
//go:norace
//go:nosplit
func shrink(n, share int) {
	for i := 0; i < n; i++ {
		syscall.RawSyscall(unix.SYS_MUNMAP, unneeded[i].begin, unneeded[i].end-unneeded[i].begin, 0)
	}
	grow(share)
}
