package stats

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// processors returns the number of online hardware threads. The kernel has counters for each,
// also if this process may run on a few only (taskset, static CPUs). If it is unknown, the
// result is that smaller number.
func processors() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	return max(countProcessors(string(text)), runtime.NumCPU())
}

// countProcessors counts a list such as "0-3,8,10-11"; 0 if it is malformed.
func countProcessors(list string) (n int) {
	for span := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isSpan := strings.Cut(span, "-")
		if !isSpan {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, lastErr := strconv.ParseUint(to, 10, 16)
		if err != nil || lastErr != nil || last < first {
			return 0
		}
		n += int(last-first) + 1
	}
	return n
}
