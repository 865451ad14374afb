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

// A Driver steers one hog from the process that started it.
type Driver struct {
	// Cmd starts this binary again as the hog. Whoever starts it (package
	// sandbox) waits for it too.
	Cmd *exec.Cmd

	in      *os.File
	replies chan string
	theirs  []*os.File // the child's ends of the pipes
}

// ErrEnded says that the hog ended before it answered: it was killed, or left.
var ErrEnded = errors.New("the hog ended")

// Command is this binary as a hog with a script of commands, and no driver: it
// ends after the script unless that ends with hold.
func Command(script ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), Variable+"="+strings.Join(script, ";"))
	cmd.Stderr = os.Stderr
	return cmd
}

// New makes a hog with a driver. Start the driver's Cmd, then give orders.
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

// Ready waits until the hog runs. It must be the first call after the start.
func (d *Driver) Ready(ctx context.Context) error {
	for _, f := range d.theirs { // or the end of the hog would not end the replies
		_ = f.Close()
	}
	d.theirs = nil
	_, err := d.await(ctx, "ready")
	return err
}

// Do sends a command and waits until it is done, for as long as that took by
// the hog's own clock.
func (d *Driver) Do(ctx context.Context, command string) (time.Duration, error) {
	if err := d.Send(command); err != nil {
		return 0, err
	}
	return d.Await(ctx, command)
}

// Send sends a command and does not wait.
func (d *Driver) Send(command string) error {
	if _, err := io.WriteString(d.in, command+"\n"); err != nil {
		return fmt.Errorf("send %q: %w: %w", command, ErrEnded, err)
	}
	return nil
}

// Await waits for a command that was sent, passing over other replies.
func (d *Driver) Await(ctx context.Context, command string) (time.Duration, error) {
	reply, err := d.await(ctx, "done "+command+" in ")
	if err != nil {
		return 0, fmt.Errorf("await %q: %w", command, err)
	}
	return time.ParseDuration(reply)
}

// AwaitDeep waits until a dip, tmpfs or jvm has reached its lowest point.
func (d *Driver) AwaitDeep(ctx context.Context) error {
	_, err := d.await(ctx, "deep ")
	return err
}

// await returns what follows the prefix in the first reply that has it.
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

// Close ends the hog's standard input, and with it a hog that is not holding.
func (d *Driver) Close() error {
	for _, f := range d.theirs {
		_ = f.Close()
	}
	d.theirs = nil
	return d.in.Close()
}
