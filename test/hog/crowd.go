package hog

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A region is a range of addresses.
type region struct{ begin, end uintptr }

// unneeded lies in the program's own data, which stays mapped.
var unneeded [128]region

// crowd makes count processes that wait to be killed, as spread does, but tiny ones:
// about 60 KiB each instead of 150, so that 16,000 fit into 2 GiB. Their common
// ancestor unmaps all it does not run on, and every fork copies what is left.
func crowd(count int) error {
	var here int
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, err := findUnneeded(uintptr(unsafe.Pointer(&here)))
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

// findUnneeded lists what is mapped and neither holds this program nor the stack.
func findUnneeded(stack uintptr) (n int, err error) {
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
		if !program && (stack < r.begin || stack >= r.end) {
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
		unix.RawSyscall(unix.SYS_MUNMAP, unneeded[i].begin, unneeded[i].end-unneeded[i].begin, 0)
	}
	grow(share)
}
