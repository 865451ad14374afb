package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
)

// MaxLimit is the maximum memory limit of a node in bytes. The rest of the machine's memory
// stays unaffected by any test.
const MaxLimit = 2 << 30

// Node is a cgroup that represents a node. Its methods are safe for concurrent use.
type Node struct {
	name    string
	limit   int64
	layout  layout
	systemd bool // directories have the names of the systemd driver
	slice   bool // systemd manages the node's directories
	pidsMax int64

	mu     sync.Mutex
	closed bool
}

// Option configures NewNode.
type Option func(*Node)

// PidsMax sets the task limit of the node.
func PidsMax(n int64) Option { return func(node *Node) { node.pidsMax = n } }

// SystemdNames selects the directory names of the systemd driver (kubepods.slice/…) instead of
// those of the cgroupfs driver (kubepods/…).
func SystemdNames() Option { return func(node *Node) { node.systemd = true } }

var (
	open    sync.Map // *Node → struct{}: the nodes that CloseAll closes
	counter atomic.Int64
	prefix  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`)
)

// NewNode creates a node with a memory limit in bytes, 1 MiB to [MaxLimit], swap included, and
// an empty kubepods directory below it. The caller closes it. Returns an error if the name or
// limit is invalid or a directory can not be created; partial directories are then removed.
func NewNode(name string, limit int64, options ...Option) (*Node, error) {
	if !prefix.MatchString(name) {
		return nil, fmt.Errorf("sandbox node name %q: use lower-case letters, digits and -", name)
	}
	if limit < 1<<20 || limit > MaxLimit {
		return nil, fmt.Errorf("sandbox node %s: memory limit of %d bytes: use 1 MiB to 2 GiB", name, limit)
	}
	l, err := detect()
	if err != nil {
		return nil, err
	}
	me, err := myself()
	if err != nil {
		return nil, err
	}
	n := &Node{name: fmt.Sprintf("plimsoll-%s.%s.%d", name, me, counter.Add(1)), limit: limit, layout: l}
	for _, o := range options {
		o(n)
	}
	open.Store(n, struct{}{})
	err = n.create("", limit, n.pidsMax)
	if err == nil {
		err = n.create(n.kubepods(), 0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make sandbox node %s: %w", n.name, err), n.Close())
	}
	return n, nil
}

// CloseAll closes every open node of this process. Returns the errors of all nodes.
func CloseAll() error {
	var errs []error
	open.Range(func(n, _ any) bool {
		errs = append(errs, n.(*Node).Close())
		return true
	})
	return errors.Join(errs...)
}

// Version returns the cgroup version of the node's memory limit: 1 or 2.
func (n *Node) Version() int { return n.layout.version }

// Root returns the mount point of the cgroup hierarchies: on v1 the directory with one mount
// per controller.
func (n *Node) Root() string { return mountRoot }

// Path returns the node's directory relative to each controller's mount with a leading slash,
// the value of --node-cgroup.
func (n *Node) Path() string { return "/" + n.name }

// Limit returns the node's memory limit in bytes.
func (n *Node) Limit() int64 { return n.limit }

// Dir returns the node's directory in a controller's hierarchy ("memory", "pids", "freezer" or
// [Unified]); on v2 all controllers share one. It is empty if the controller is not part of the
// sandbox.
func (n *Node) Dir(controller string) string { return n.dir(controller, "") }

func (n *Node) dir(controller, below string) string {
	for _, m := range n.layout.mounts {
		if m.controller == controller || n.layout.version == 2 {
			return filepath.Join(m.dir, n.name, below)
		}
	}
	return ""
}

func (n *Node) kubepods() string {
	if n.systemd {
		return "kubepods.slice"
	}
	return "kubepods"
}

// dirs lists the node's directory in every hierarchy.
func (n *Node) dirs() []string {
	dirs := make([]string, len(n.layout.mounts))
	for i, m := range n.layout.mounts {
		dirs[i] = filepath.Join(m.dir, n.name)
	}
	return dirs
}

// write sets a file of a controller's directory below the node.
func (n *Node) write(controller, below, file, value string) error {
	path := filepath.Join(n.dir(controller, below), file)
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}
