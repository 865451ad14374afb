package agent

import (
	"os"
	"testing"
)

func TestReserveThreads_KeepsThreads(t *testing.T) {
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	for range 2 { // the second call starts none
		if ReserveThreads(); threads() < reservedThreads {
			t.Fatalf("%d threads, want at least %d", threads(), reservedThreads)
		}
	}
}
