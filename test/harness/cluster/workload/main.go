// Workload is the program in the containers of a test cluster. By default it pauses until a
// signal arrives. With the environment variables below it is a hog (package hog). It reads
// commands from a named pipe and replies into a file beside it, so that the test reaches it
// without the runtime.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// Variables with the path of a hog's named pipe: DIRECTORY/POD.CONTAINER.
const (
	directory = "PLIMSOLL_ORDERS"
	pod       = "PLIMSOLL_POD"
	container = "PLIMSOLL_CONTAINER"
)

func main() {
	if dir := os.Getenv(directory); dir != "" {
		if err := redirect(filepath.Join(dir, os.Getenv(pod)+"."+os.Getenv(container))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	hog.RunIfSet()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// redirect makes a named pipe the standard input and a file the output. The file exists
// before the pipe is open: a process that finds the pipe open can read the replies. The pipe is
// also open for writing, so that the first writer's close does not end it.
func redirect(path string) error {
	if err := become(1, path+".replies", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND); err != nil {
		return err
	}
	fmt.Println("listening")
	if err := unix.Mkfifo(path, 0o600); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make the named pipe %s: %w", path, err)
	}
	return become(0, path, unix.O_RDWR)
}

// become opens a file as a standard stream.
func become(stream int, path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	return unix.Dup3(fd, stream, 0)
}
