package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// A Filesystem is a small one of its own: ext4 in a sparse file, so that disk
// and inode pressure are real and nobody else's.
type Filesystem struct {
	Size   int64 // bytes; 0 is none
	Inodes int64 // 0 leaves it to mkfs; at least about 200, ext4 rounds up
}

// mountFilesystems makes the node's file systems, before its mount namespace:
// so they are seen inside and outside.
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

// mount makes the file system and mounts it; the loop device goes with the
// mount.
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
