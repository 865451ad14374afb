// Package role turns the binary into one of the processes of a run: a hog, the witness, the reaper. So a run
// needs one static file. The test binaries of packages that start such processes call it too.
package role

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/watch"
)

// RunIfAsked performs the role that the first argument names, and exits. Without one it returns.
func RunIfAsked() {
	if len(os.Args) < 2 {
		return
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "enter":
		exit("enter", arena.Enter(args))
	case "hog":
		if len(args) != 1 {
			exit("hog", errors.New("want the file of a program"))
		}
		os.Exit(hog.Run(args[0]))
	case "child":
		os.Exit(hog.RunChild(os.Stdin, len(args) > 0))
	case "watch":
		exit("witness", watch.Run(os.Stdout))
	case "reaper":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		exit("reaper", arena.Reap(os.Stdin))
	}
}

func exit(role string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(1)
	}
	os.Exit(0)
}
