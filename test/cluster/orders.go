package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/hog"
)

// Do has the hog in the pod's first container carry out a command (package
// hog), and returns when it is done, or with [hog.ErrEnded].
func (p *Pod) Do(ctx context.Context, command string) error {
	return p.DoIn(ctx, p.Object.Spec.Containers[0].Name, command)
}

// DoIn is Do for any container.
func (p *Pod) DoIn(ctx context.Context, container, command string) error {
	log, _ := p.log(container) // none yet: the hog just starts
	said := int64(0)
	if info, err := os.Stat(log); err == nil {
		said = info.Size()
	}
	if err := p.Order(ctx, container, command); err != nil {
		return err
	}
	return await(ctx, func(context.Context) error {
		now, err := p.log(container)
		if err != nil {
			return err
		}
		if log != "" && now != log {
			return final{fmt.Errorf("order %q to container %s of pod %s: %w and was started again", command, container, p.Object.Name, hog.ErrEnded)}
		}
		done, err := replied(now, said, command)
		if err == nil && !done {
			err = p.listens(container)
		}
		if err == nil && !done {
			err = fmt.Errorf("container %s of pod %s has not done %q", container, p.Object.Name, command)
		}
		return err
	})
}

// Order sends a command to the hog in a container and does not wait until it is
// done. A hog that just starts is waited for.
func (p *Pod) Order(ctx context.Context, container, command string) error {
	fd := -1
	err := await(ctx, func(context.Context) (err error) {
		fd, err = unix.Open(p.pipe(container), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("open the pipe of the hog in container %s of pod %s: %w", container, p.Object.Name, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(command+"\n")); err != nil {
		return fmt.Errorf("order %q to container %s of pod %s: %w", command, container, p.Object.Name, err)
	}
	return nil
}

// pipe is where package main of the images makes it.
func (p *Pod) pipe(container string) string {
	return p.node.path("orders", p.UID()+"."+container)
}

// listens says that nobody has the pipe open any more.
func (p *Pod) listens(container string) error {
	fd, err := unix.Open(p.pipe(container), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) {
		return final{fmt.Errorf("container %s of pod %s: %w", container, p.Object.Name, hog.ErrEnded)}
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// replied looks in what a container's log says after an offset for the reply to
// a command. A line is: time, stream, F for a whole line, text.
func replied(log string, after int64, command string) (done bool, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text[min(after, int64(len(text))):])) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) < 4 {
			continue
		}
		if strings.HasPrefix(words[3], "failed "+command+":") {
			return false, final{errors.New(words[3])}
		}
		if strings.HasPrefix(words[3], "done "+command+" in ") {
			return true, nil
		}
	}
	return false, nil
}
