// Workload is what runs in the containers of a test cluster: a pause program
// that waits for a signal, or, where the environment says so, a hog (package
// hog) that takes its orders from a named pipe and replies into a file beside
// it: so the test reaches it whatever becomes of the runtime.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/hog"
)

// The variables that say where a hog's named pipe is: DIRECTORY/POD.CONTAINER.
const (
	directory = "PLIMSOLL_ORDERS"
	pod       = "PLIMSOLL_POD"
	container = "PLIMSOLL_CONTAINER"
)

func main() {
	if dir := os.Getenv(directory); dir != "" {
		if err := takeOrders(filepath.Join(dir, os.Getenv(pod)+"."+os.Getenv(container))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	hog.RunIfAsked()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// takeOrders makes a named pipe the standard input, and a file the output. The
// pipe is open for writing too, so that it does not end with the first who
// writes.
func takeOrders(path string) error {
	if err := unix.Mkfifo(path, 0o600); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make the named pipe %s: %w", path, err)
	}
	for stream, file := range []struct {
		path  string
		flags int
	}{
		{path, unix.O_RDWR},
		{path + ".replies", unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND},
	} {
		fd, err := unix.Open(file.path, file.flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fmt.Errorf("open %s: %w", file.path, err)
		}
		if err := unix.Dup3(fd, stream, 0); err != nil {
			return fmt.Errorf("take orders by %s: %w", file.path, err)
		}
		_ = unix.Close(fd) // the stream stays
	}
	return nil
}
