package hog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Driver controls one hog from the process that started it.
type Driver struct {
	// Cmd starts this binary again as the hog. Its starter (package sandbox) also waits for it.
	Cmd *exec.Cmd

	in      *os.File
	replies chan string
	theirs  []*os.File // the child's ends of the pipes
}

// ErrEnded reports that the hog exited before its reply, killed or by itself.
var ErrEnded = errors.New("the hog ended")

// Command returns this binary as a hog with a script of commands and without a driver. It exits
// after the script unless the last command is hold.
func Command(script ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), Variable+"="+strings.Join(script, ";"))
	cmd.Stderr = os.Stderr
	return cmd
}

// New returns the driver of a new hog. The caller starts Cmd, then calls Ready. Returns an
// error if a pipe can not be created.
func New() (*Driver, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe of commands: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the pipe of replies: %w", err), childIn.Close(), in.Close())
	}
	d := &Driver{Cmd: Command(), in: in, replies: make(chan string, 64), theirs: []*os.File{childIn, childOut}}
	d.Cmd.Stdin, d.Cmd.Stdout = childIn, childOut
	go d.listen(out)
	return d, nil
}

func (d *Driver) listen(out io.ReadCloser) {
	defer out.Close()
	defer close(d.replies)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		d.replies <- lines.Text()
	}
}

// Ready waits until the hog runs. It must be the first call after the start. Returns ErrEnded
// if the hog exits first.
func (d *Driver) Ready(ctx context.Context) error {
	for _, f := range d.theirs { // otherwise the replies would not end with the hog
		_ = f.Close()
	}
	d.theirs = nil
	_, err := d.await(ctx, "ready")
	return err
}

// Do sends a command, waits for its completion, and returns its duration by the hog's own
// clock. Returns ErrEnded if the hog exits first, or the error of the command.
func (d *Driver) Do(ctx context.Context, command string) (time.Duration, error) {
	if err := d.Send(command); err != nil {
		return 0, err
	}
	return d.Await(ctx, command)
}

// Send sends a command without waiting for it. Returns ErrEnded if the hog has exited.
func (d *Driver) Send(command string) error {
	if _, err := io.WriteString(d.in, command+"\n"); err != nil {
		return fmt.Errorf("send %q: %w: %w", command, ErrEnded, err)
	}
	return nil
}

// Await waits for the completion of a sent command and skips other replies. Returns ErrEnded if
// the hog exits first, or the error of the command.
func (d *Driver) Await(ctx context.Context, command string) (time.Duration, error) {
	reply, err := d.await(ctx, "done "+command+" in ")
	if err != nil {
		return 0, fmt.Errorf("await %q: %w", command, err)
	}
	return time.ParseDuration(reply)
}

// AwaitDeep waits until a dip, tmpfs or jvm has reached its lowest point. Returns ErrEnded if
// the hog exits first, or the error of the command.
func (d *Driver) AwaitDeep(ctx context.Context) error {
	_, err := d.await(ctx, "deep ")
	return err
}

// await returns the rest of the first reply with the prefix.
func (d *Driver) await(ctx context.Context, prefix string) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case reply, ok := <-d.replies:
			if !ok {
				return "", ErrEnded
			}
			if rest, found := strings.CutPrefix(reply, prefix); found {
				return rest, nil
			}
			if strings.HasPrefix(reply, "failed ") {
				return "", errors.New(reply)
			}
		}
	}
}

// Close closes the hog's standard input. The hog then exits unless it is in hold. Returns the
// error of that close.
func (d *Driver) Close() error {
	for _, f := range d.theirs {
		_ = f.Close()
	}
	d.theirs = nil
	return d.in.Close()
}
