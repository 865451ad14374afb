package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flag is the flag to set if the runtime is not found.
const flag = "--container-runtime-endpoint"

// sockets are the default sockets of runtimes, below the root of the host. The first two names of a
// runtime may be one file: /var/run leads to /run.
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
var ErrNoRuntime = errors.New("none is configured")

// Locate returns the endpoint of the runtime on a host that is mounted at root. A given endpoint
// must be valid; without one, it is discovered. Returns ErrNoRuntime if given is [None], or if no
// runtime is found.
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

// Find returns the runtime's socket in the usual places below root: "/", or the mount point of the
// host. Links are followed below root only. It makes no connection. Returns an error if several
// runtimes have a socket: the operator has to choose the one that runs the pods.
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

// maxPath is the kernel's maximum length of a socket's path: sun_path of unix(7) without the final
// zero.
const maxPath = 107

// ParseEndpoint returns a configured endpoint, unix:///path or the bare absolute path of a socket,
// as unix:///path. Returns an error if it is neither.
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
