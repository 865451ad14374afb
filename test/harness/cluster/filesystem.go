package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Filesystem is a small separate file system: ext4 in a sparse file, so that disk and inode
// pressure are real and affect no other process.
type Filesystem struct {
	Size   int64 // in bytes; 0: no separate file system
	Inodes int64 // 0: the default of mkfs; at least about 200, ext4 rounds up
}

// mountFilesystems creates the node's file systems before its mount namespace, so that they are
// visible inside and outside.
func (n *Node) mountFilesystems(ctx context.Context, o NodeOptions) error {
	n.ContainerdRoot = n.path("n", "containerd")
	if err := os.Mkdir(n.path("n"), 0o755); err != nil {
		return err
	}
	if err := o.Filesystem.mount(ctx, n.path("n.img"), n.path("n")); err != nil {
		return err
	}
	if o.ImageFilesystem.Size == 0 {
		return nil
	}
	n.ContainerdRoot = n.path("i", "containerd")
	if err := os.Mkdir(n.path("i"), 0o755); err != nil {
		return err
	}
	return o.ImageFilesystem.mount(ctx, n.path("i.img"), n.path("i"))
}

// mount creates the file system and mounts it. The unmount releases the loop device.
func (f Filesystem) mount(ctx context.Context, image, dir string) error {
	if f.Size == 0 {
		return nil
	}
	file, err := os.Create(image)
	if err != nil {
		return err
	}
	err = file.Truncate(f.Size)
	_ = file.Close() // nothing was written
	if err != nil {
		return fmt.Errorf("make %s of %d bytes: %w", image, f.Size, err)
	}
	format := []string{"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"}
	if f.Inodes > 0 {
		format = append(format, "-N", strconv.FormatInt(f.Inodes, 10))
	}
	for _, command := range [][]string{append(format, image), {"mount", "-n", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: is there a free loop device? (losetup -f)\n%s", command, err, out)
		}
	}
	return nil
}

// Free returns the free bytes and inodes of the node's disk. Returns an error if it can not be read.
func (n *Node) Free() (bytes, inodes int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(n.KubeletRoot, &fs); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", n.KubeletRoot, err)
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Ffree), nil
}

// WriteFile writes a file of the given size in bytes, synced to disk and without page cache. Returns an
// error if it can not be written.
func WriteFile(name string, bytes int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for part := make([]byte, 1<<20); err == nil && bytes > 0; bytes -= int64(len(part)) {
		_, err = f.Write(part[:min(bytes, int64(len(part)))])
	}
	return errors.Join(err, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}
