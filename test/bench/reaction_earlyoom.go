package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
)

// earlyoom watches the machine's MemAvailable and kills the process with the highest oom_score.
// It is configured to send SIGKILL at the threshold of the other contenders. By default it
// would send SIGTERM first, and SIGKILL at half of the threshold. It does not log the time of a
// signal.
type earlyoom struct {
	cmd    *exec.Cmd
	env    *env
	killed chan []int // PIDs, sent after it has ended
}

// Lines of earlyoom: the last before it watches, and one before each kill.
var (
	earlyoomReady = regexp.MustCompile(`^ *SIGKILL when mem`)
	earlyoomKill  = regexp.MustCompile(`^sending SIG[A-Z]+ to process ([0-9]+)`)
)

func startEarlyoom(ctx context.Context, s *env) (racer, error) {
	kib := s.margin >> 10
	e := earlyoom{cmd: exec.Command(s.earlyoom, "-M", fmt.Sprintf("%d,%d", kib, kib), "-r", "0"), env: s, killed: make(chan []int, 1)}
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e.cmd.Stdout, e.cmd.Stderr = in, in
	if err := errors.Join(e.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start earlyoom: %w", err), out.Close())
	}
	watching := make(chan struct{})
	go e.listen(out, watching)
	select {
	case <-watching:
		return e, nil
	case <-ctx.Done():
		_, err := e.finish(ctx)
		return nil, errors.Join(ctx.Err(), err)
	}
}

// listen reads its output until it ends. It logs its thresholds before it starts to watch.
func (e earlyoom) listen(out io.ReadCloser, watching chan<- struct{}) {
	defer out.Close()
	var pids []int
	began := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !began && earlyoomReady.Match(lines.Bytes()) {
			began = true
			close(watching)
		}
		if found := earlyoomKill.FindSubmatch(lines.Bytes()); found != nil {
			pid, _ := strconv.Atoi(string(found[1])) // digits
			pids = append(pids, pid)
		}
	}
	e.killed <- pids
}

func (e earlyoom) pid() int { return e.cmd.Process.Pid }

func (e earlyoom) finish(context.Context) (kill, error) {
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return kill{}, fmt.Errorf("end earlyoom: %w", err)
	}
	pids := <-e.killed
	_ = e.cmd.Wait() // ended by our signal
	if len(pids) == 0 {
		return kill{}, nil
	}
	switch pids[0] {
	case e.env.hog.Process.PID:
		return kill{victim: "default/hog"}, nil
	case e.env.innocent.Process.PID:
		return kill{victim: "default/innocent"}, nil
	}
	return kill{victim: fmt.Sprintf("process %d", pids[0])}, nil
}
