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

// startTime bounds the wait for a hog that just starts: one that has ended listens
// no more than that.
const startTime = time.Minute

// Do has the hog in the pod's first container carry out a command (package
// hog), and returns when it is done, or with [hog.ErrEnded].
func (p *Pod) Do(ctx context.Context, command string) error {
	return p.DoIn(ctx, p.Object.Spec.Containers[0].Name, command)
}

// DoIn is Do for any container. It needs neither API server nor containerd.
func (p *Pod) DoIn(ctx context.Context, container, command string) error {
	said, err := p.order(ctx, container, command)
	if err == nil {
		err = await(ctx, func(context.Context) error {
			ended := p.listens(container) // asked first: it may answer, and end then
			done, err := replied(p.replies(container), said, command)
			switch {
			case done || err != nil:
				return err
			case ended != nil:
				return ended
			}
			return errors.New("it has not yet")
		})
	}
	if err != nil {
		return fmt.Errorf("order %q to container %s of pod %s: %w", command, container, p.Object.Name, err)
	}
	return nil
}

// Order sends a command to the hog in a container and does not wait until it is
// done. A hog that just starts is waited for.
func (p *Pod) Order(ctx context.Context, container, command string) error {
	if _, err := p.order(ctx, container, command); err != nil {
		return fmt.Errorf("order %q to container %s of pod %s: %w", command, container, p.Object.Name, err)
	}
	return nil
}

// order says how many bytes the hogs of the container had replied before.
func (p *Pod) order(ctx context.Context, container, command string) (said int64, err error) {
	fd := -1
	starts, cancel := context.WithTimeout(ctx, startTime)
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

// pipe and replies are where package main of the images makes them.
func (p *Pod) pipe(container string) string {
	return p.node.path("orders", p.UID()+"."+container)
}

func (p *Pod) replies(container string) string { return p.pipe(container) + ".replies" }

// listens fails where nobody has the pipe open any more.
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

// replied looks in what a hog said after an offset for the reply to a command.
// A hog that was started again does not remember it.
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
