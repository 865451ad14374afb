package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// here is the machine's directory for the files of the working directory.
const here = wire.Here

// diskSize is the maximum size of the machine's disk. Its file is sparse: on the host it
// occupies only the written blocks.
const diskSize = "4G"

// image is a directory with all parts of a machine.
type image struct {
	dir string // root/, and the files built from it
}

// newImage creates an image with init only.
func newImage() (*image, error) {
	dir, err := os.MkdirTemp("", "plimsoll-vm-")
	if err != nil {
		return nil, err
	}
	i := &image{dir}
	if err := os.MkdirAll(i.at(here), 0o755); err != nil {
		return nil, errors.Join(err, i.remove())
	}
	if err := i.build(i.at("/init"), "build", "-ldflags", "-s -w", "plimsoll.dev/plimsoll/test/harness/vm/init"); err != nil {
		return nil, errors.Join(err, i.remove())
	}
	return i, nil
}

func (i *image) remove() error { return os.RemoveAll(i.dir) }

// at returns the path in the image of a path in the machine.
func (i *image) at(path string) string { return filepath.Join(i.dir, "root", path) }

// build builds a static program; args begin with "build" or "test".
func (i *image) build(program string, args ...string) error {
	cmd := exec.Command("go", append([]string{args[0], "-o", program}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// put copies a file into the image and returns its path in the machine.
func (i *image) put(name string) (string, error) {
	path := name
	if !filepath.IsAbs(name) {
		if !filepath.IsLocal(name) {
			return "", fmt.Errorf("put %s: it is outside of the working directory: name it by its absolute path", name)
		}
		path = filepath.Join(here, name)
	}
	return path, copyFile(i.at(path), name)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("put %s: it is no file", from)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// pack creates the initramfs from the plan, the kernel's modules and the files of the image.
func (i *image) pack(ctx context.Context, k *kernel, plan []wire.Command) (string, error) {
	text, err := wire.EncodePlan(plan)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(i.at(wire.PlanFile), text, 0o600); err != nil {
		return "", err
	}
	for _, name := range k.modules {
		if err := copyFile(i.at(filepath.Join("/modules", filepath.Base(name))), name); err != nil {
			return "", err
		}
	}
	var names bytes.Buffer
	root := i.at("/")
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != root {
			fmt.Fprintf(&names, "%s\x00", strings.TrimPrefix(path, root+"/"))
		}
		return err
	}); err != nil {
		return "", err
	}
	archive := filepath.Join(i.dir, "initramfs")
	out, err := os.Create(archive)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "cpio", "--create", "--null", "--format=newc", "--quiet", "--owner=0:0")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, &names, out, os.Stderr
	if err := errors.Join(cmd.Run(), out.Close()); err != nil {
		return "", fmt.Errorf("pack the initramfs with cpio: %w", err)
	}
	return archive, nil
}

// disk creates the machine's empty disk.
func (i *image) disk(ctx context.Context) (string, error) {
	file := filepath.Join(i.dir, "disk")
	return file, makeFilesystem(ctx, file, diskSize)
}

// makeFilesystem makes a sparse file with ext4. Without a journal and with lazily written tables,
// it is created at once, and its first use writes little. More arguments of mke2fs can name a tree
// to copy.
func makeFilesystem(ctx context.Context, file, size string, more ...string) error {
	args := append([]string{"-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard"}, more...)
	return command(ctx, "", "mke2fs", append(args, file, size)...)
}
