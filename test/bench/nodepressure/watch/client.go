package watch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Witness is a running witness, from the side of the referee.
type Witness struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// Start starts a witness and returns once it watches. The caller calls End or Close.
func Start(input Input) (w *Witness, err error) {
	w = &Witness{cmd: exec.Command("/proc/self/exe", "watch")}
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the referee, which ends it
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = json.NewDecoder(bufio.NewReader(out))
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the witness: %w", err)
	}
	var ready bool
	late := time.AfterFunc(Timeout, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	if err = json.NewEncoder(w.in).Encode(input); err == nil {
		err = w.out.Decode(&ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the witness: %w", err), w.Close())
	}
	return w, nil
}

// Send sends an order.
func (w *Witness) Send(o Order) error {
	if err := json.NewEncoder(w.in).Encode(o); err != nil {
		return fmt.Errorf("send an order to the witness: %w", err)
	}
	return nil
}

// End ends the witness and returns its report.
func (w *Witness) End() (r Report, err error) {
	if err := w.Send(Order{End: true}); err != nil {
		return r, err
	}
	late := time.AfterFunc(Timeout, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	if err := w.out.Decode(&r); err != nil {
		return r, fmt.Errorf("read the report of the witness: %w", err)
	}
	return r, w.Close()
}

// Close ends the witness in any state. It is idempotent. Returns the error of a witness that failed.
func (w *Witness) Close() error {
	if w.in == nil {
		return nil
	}
	_ = w.in.Close() // it ends with its input
	w.in = nil
	return w.cmd.Wait()
}
