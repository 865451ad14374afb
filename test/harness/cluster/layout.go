package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// layoutVariable selects the layout of the node of a whole machine, by its platform. The default is
// that of kubeadm, with every place below the cluster's directory.
const layoutVariable = "LAYOUT"

// layout is what differs between platforms. An empty path is below the cluster's directory.
type layout struct {
	// slices are the names of the slices above kubepods.slice. They have the node's limits. Without
	// one the node is the machine, with a limit of tasks only.
	slices                               []string
	socket, containerd, kubelet, podLogs string
	dropIns                              string // the kubelet's --config-dir, instead of --config
	process                              string // executes the kubelet, if not kubelet
	preset                               string // of the chart
}

var layouts = map[string]layout{
	"":     {},
	"kind": {slices: []string{"kubelet"}},
	"k3s": {
		socket: "/run/k3s/containerd/containerd.sock", containerd: "/var/lib/rancher/k3s/agent/containerd",
		kubelet: "/var/lib/kubelet", podLogs: "/var/log/pods", dropIns: "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", process: "k3s", preset: "k3s",
	},
}

// readLayout returns the layout that the environment names.
func readLayout() (layout, error) {
	name := os.Getenv(layoutVariable)
	l, known := layouts[name]
	if !known || name != "" && !wholeMachine() {
		return l, fmt.Errorf("%s=%s: want kind or k3s, in a machine with systemd (make e2e-v2)", layoutVariable, name)
	}
	return l, nil
}

// Preset returns the name of the chart's values for the node's layout, "" for the node's own paths.
func (n *Node) Preset() string { return n.layout.preset }

// move binds the node's directories, which are on its own file system, to the places of the layout,
// and uses them from there.
func (n *Node) move(ctx context.Context) error {
	for _, d := range []struct {
		used  *string
		place string
	}{{&n.ContainerdRoot, n.layout.containerd}, {&n.KubeletRoot, n.layout.kubelet}, {&n.PodLogs, n.layout.podLogs}} {
		if d.place == "" {
			continue
		}
		if err := os.MkdirAll(d.place, 0o755); err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "mount", "--bind", *d.used, d.place).CombinedOutput(); err != nil {
			return fmt.Errorf("mount --bind %s %s: %w\n%s", *d.used, d.place, err, out)
		}
		*d.used = d.place
	}
	return os.MkdirAll(filepath.Dir(n.Socket), 0o711)
}

// wrapKubelet returns the wrapper of the kubelet's command, which has the name of the layout's
// process.
func (n *Node) wrapKubelet() (func(*exec.Cmd) *exec.Cmd, error) {
	if n.layout.process == "" {
		return n.wrap, nil
	}
	kubelet, err := program("kubelet")
	if err != nil {
		return nil, err
	}
	link := n.path(n.layout.process)
	return func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Path, cmd.Args[0] = link, link
		return n.wrap(cmd)
	}, os.Symlink(kubelet, link)
}
