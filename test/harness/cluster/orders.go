package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// startTime bounds the wait for the pipe of a starting hog. A hog that exits in the meantime
// never opens its pipe again.
const startTime = time.Minute

// Do sends a command (package hog) to the hog in the pod's first container and waits until it
// is done. Returns [hog.ErrEnded] if the hog exits first.
func (p *Pod) Do(ctx context.Context, command string) error {
	return p.DoIn(ctx, p.Object.Spec.Containers[0].Name, command)
}

// DoIn is Do for any container. It needs neither API server nor containerd. Returns
// [hog.ErrEnded] if the hog exits first.
func (p *Pod) DoIn(ctx context.Context, container, command string) error {
	before, err := p.order(ctx, container, command)
	if err == nil {
		err = await(ctx, func(context.Context) error {
			ended := p.listens(container) // checked before the replies: the hog can reply and exit in between
			done, err := replied(p.replies(container), before, command)
			switch {
			case done || err != nil:
				return err
			case ended != nil:
				return ended
			}
			return errors.New("no reply yet")
		})
	}
	if err != nil {
		return fmt.Errorf("send %q to container %s of pod %s: %w", command, container, p.Object.Name, err)
	}
	return nil
}

// Order sends a command to the hog in a container without waiting for its completion. It waits
// for a starting hog. Returns an error if the hog does not open its pipe within 1 min.
func (p *Pod) Order(ctx context.Context, container, command string) error {
	if _, err := p.order(ctx, container, command); err != nil {
		return fmt.Errorf("send %q to container %s of pod %s: %w", command, container, p.Object.Name, err)
	}
	return nil
}

// order returns the size of the container's replies before the command, in bytes.
func (p *Pod) order(ctx context.Context, container, command string) (before int64, err error) {
	fd := -1
	starts, cancel := context.WithTimeout(ctx, Patience(startTime))
	defer cancel()
	err = await(starts, func(context.Context) (err error) {
		fd, err = unix.Open(p.pipe(container), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("open its pipe: %w", err)
	}
	defer unix.Close(fd)
	info, err := os.Stat(p.replies(container))
	if err != nil {
		return 0, err
	}
	if _, err := unix.Write(fd, []byte(command+"\n")); errors.Is(err, unix.EPIPE) {
		return 0, hog.ErrEnded
	} else if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// pipe returns the path of the pipe; package main of the images creates pipe and replies.
func (p *Pod) pipe(container string) string {
	return p.node.path("orders", p.UID()+"."+container)
}

func (p *Pod) replies(container string) string { return p.pipe(container) + ".replies" }

// listens returns an error if no process has the pipe open.
func (p *Pod) listens(container string) error {
	fd, err := unix.Open(p.pipe(container), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) {
		return final{hog.ErrEnded}
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// replied reports whether the replies of a hog contain the one to a command after an offset. A
// restarted hog does not reply to earlier commands.
func replied(file string, after int64, command string) (done bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text[min(after, int64(len(text))):])) {
		switch {
		case strings.HasPrefix(line, "failed "+command+":"):
			return false, final{errors.New(strings.TrimSpace(line))}
		case strings.HasPrefix(line, "done "+command+" in "):
			return true, nil
		case strings.HasPrefix(line, "listening"):
			return false, final{fmt.Errorf("%w, and was started again", hog.ErrEnded)}
		}
	}
	return false, nil
}
