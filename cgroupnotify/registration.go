package cgroupnotify

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// registration registers one level with the kernel. It runs beside the loop, with its own
// descriptors, and shares nothing.
type registration struct {
	control, usage, event int
	level                 uint64 // bytes, whole pages
	below                 bool   // less than the line's amount was available at the check
	where                 string
}

// run registers the eventfd. It signals the eventfd if the level was crossed meanwhile, because
// the kernel does not report earlier crossings. The kernel accepts any text as a number, so
// only digits are written.
func (r *registration) run() error {
	defer r.close()
	text := strconv.AppendInt(nil, int64(r.event), 10)
	text = append(strconv.AppendInt(append(text, ' '), int64(r.usage), 10), ' ')
	text = strconv.AppendUint(text, r.level, 10)
	if err := write(r.control, text); err != nil {
		return fmt.Errorf("register a memory threshold (%s) in %s/cgroup.event_control: %w", text, r.where, err)
	}
	usage, err := r.read()
	if err != nil {
		return err
	}
	if (usage >= r.level) != r.below {
		return write(r.event, one)
	}
	return nil
}

// read reads the usage in bytes.
func (r *registration) read() (uint64, error) {
	var buf [32]byte
	for {
		n, err := unix.Pread(r.usage, buf[:], 0)
		switch err {
		case nil:
			return cgroup.ParseSingleValue(buf[:n])
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("read %s/memory.usage_in_bytes: %w", r.where, err)
		}
	}
}

// close closes the registration's own descriptors. The kernel's registration lasts while
// another descriptor of the eventfd is open.
func (r *registration) close() {
	for _, fd := range []int{r.control, r.usage, r.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// write writes a text to a kernel file that accepts it in one call.
func write(fd int, text []byte) error {
	for {
		_, err := unix.Write(fd, text)
		if err != unix.EINTR {
			return err
		}
	}
}
