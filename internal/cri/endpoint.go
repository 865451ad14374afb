package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flag is what a user sets where the runtime can not be found.
const flag = "--container-runtime-endpoint"

// sockets are where runtimes listen unless told otherwise, below the root of the
// host. The first two names of a runtime may be one file: /var/run leads to /run.
var sockets = []string{
	"run/containerd/containerd.sock",
	"var/run/containerd/containerd.sock",
	"run/crio/crio.sock",
	"var/run/crio/crio.sock",
	"run/cri-dockerd.sock",
	"var/run/cri-dockerd.sock",
	"run/k3s/containerd/containerd.sock",
	"run/k0s/containerd.sock",
	"var/snap/microk8s/common/run/containerd.sock",
}

// None instead of an endpoint means that no runtime is used.
const None = "none"

// ErrNoRuntime is the error of [Locate] on a node without a container runtime.
var ErrNoRuntime = errors.New("none was asked for")

// Locate returns the endpoint of the runtime on a host that is mounted at root. A given
// endpoint must be valid; if none is given, it is found. Returns ErrNoRuntime if given is
// [None], or if no runtime is found.
func Locate(given, root string) (string, error) {
	switch given {
	case None:
		return "", ErrNoRuntime
	case "":
		endpoint, err := Find(root)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoRuntime, err)
		}
		return endpoint, nil
	}
	endpoint, err := ParseEndpoint(given)
	if socket, parsed := strings.CutPrefix(endpoint, "unix://"); parsed {
		return ParseEndpoint(filepath.Join(root, socket))
	}
	return endpoint, err
}

// Find looks for a runtime's socket in the usual places below root: "/", or where
// the host is mounted. Links are followed below root only. Where several
// runtimes have a socket it does not guess: which of them runs the pods is for
// the user to say. That somebody listens is not tried.
func Find(root string) (endpoint string, err error) {
	host, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("look for the container runtime's socket: %w; set %s", err, flag)
	}
	defer func() { _ = host.Close() }()
	var found []string
	var seen []os.FileInfo
	for _, name := range sockets {
		info, err := host.Stat(name)
		if err != nil || info.Mode().Type() != os.ModeSocket || contains(seen, info) {
			continue
		}
		found, seen = append(found, filepath.Join(root, name)), append(seen, info)
	}
	switch len(found) {
	case 1:
		return ParseEndpoint(found[0])
	case 0:
		return "", fmt.Errorf("no socket of a container runtime below %s, tried %s: set %s", root, strings.Join(sockets, ", "), flag)
	}
	return "", fmt.Errorf("sockets of several container runtimes: %s: set %s to the one that runs the pods", strings.Join(found, ", "), flag)
}

func contains(seen []os.FileInfo, info os.FileInfo) bool {
	for _, s := range seen {
		if os.SameFile(s, info) {
			return true
		}
	}
	return false
}

// maxPath is how long the kernel lets the path of a socket be: sun_path of
// unix(7) without the final zero.
const maxPath = 107

// ParseEndpoint returns the endpoint that a user wrote, unix:///path or the bare
// absolute path of a socket, as unix:///path.
func ParseEndpoint(text string) (string, error) {
	scheme, path, has := strings.Cut(text, "://")
	if !has {
		scheme, path = "unix", strings.TrimPrefix(text, "unix:")
	}
	fault := ""
	switch {
	case text == "":
		fault = "is empty"
	case scheme != "unix":
		fault = "is not on a unix socket, the only place where this program looks for a runtime"
	case strings.ContainsRune(path, 0) || !filepath.IsAbs(path):
		fault = "has no absolute path"
	case strings.HasSuffix(path, "/"):
		fault = "is a directory, not a socket"
	case len(filepath.Clean(path)) > maxPath:
		fault = fmt.Sprintf("has a path of more than %d bytes, which no socket can have", maxPath)
	}
	if fault != "" {
		return "", fmt.Errorf("container runtime endpoint %q %s: write unix:///run/containerd/containerd.sock or the like", text, fault)
	}
	return "unix://" + filepath.Clean(path), nil
}
