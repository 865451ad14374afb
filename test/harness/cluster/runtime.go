package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeNetwork makes the node ready for pods, which all use the host's network.
const fakeNetwork = `{"cniVersion":"0.4.0","name":"fake","plugins":[{"type":"none"}]}`

// runtimeConfig is the configuration of containerd. Without restrict_oom_score_adj runc fails
// if root lacks CAP_SYS_RESOURCE. By default, containerd collects for at most 2 % of the time: where a
// collection takes 0.2 s, removed layers keep their space for 10 s. Version 2 is that of containerd 1.6 and 1.7;
// containerd 2 converts it.
const runtimeConfig = `version = 2
root = "ROOT"
state = "DIR/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.image-verifier.v1.bindir",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
  address = "SOCKET"
[ttrpc]
  address = "SOCKET.ttrpc"
[plugins.'io.containerd.gc.v1.scheduler']
  pause_threshold = 0.5
[plugins.'io.containerd.grpc.v1.cri']
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  sandbox_image = "PAUSE"
  stats_collect_period = 1
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        BinaryName = "RUNC"
        SystemdCgroup = SYSTEMD
        Root = "DIR/runc"
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.crun.options]
        BinaryName = "crun"
        SystemdCgroup = SYSTEMD
        Root = "DIR/crun"
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = "DIR/cni/bin"
    conf_dir = "DIR/cni/conf"
`

func (n *Node) startContainerd(ctx context.Context) (err error) {
	runc, err := program("runc")
	if err != nil {
		return err
	}
	shim, err := program("containerd-shim-runc-v2")
	if err != nil {
		return err
	}
	for _, dir := range []string{n.path("cni", "bin"), n.path("cni", "conf")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	text := strings.NewReplacer("DIR", n.dir, "SOCKET", n.Socket, "ROOT", n.ContainerdRoot, "RUNC", runc, "PAUSE", PauseImage, "SYSTEMD", strconv.FormatBool(wholeMachine())).Replace(runtimeConfig)
	for name, text := range map[string]string{n.path("cni", "conf", "10-fake.conflist"): fakeNetwork, n.path("containerd.toml"): text} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	n.searchPath = strings.Join([]string{filepath.Dir(runc), filepath.Dir(shim), os.Getenv("PATH")}, ":")
	n.Containerd, err = n.cluster.component(Containerd, "containerd", n.answers, n.wrap, "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	if n.conn, err = connect(n.Socket); err != nil {
		return err
	}
	n.Runtime, n.Images = runtimeapi.NewRuntimeServiceClient(n.conn), runtimeapi.NewImageServiceClient(n.conn)
	if err := n.Containerd.start(ctx); err != nil {
		return err
	}
	n.Link, err = newLink("unix", n.path("l.sock"), n.Socket)
	return err
}

func connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// wrap runs a component of the node in its mount namespace, with runc and the shim in its path.
func (n *Node) wrap(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), "PATH="+n.searchPath)
	return n.namespace.enter(cmd)
}

// answers checks the readiness of the runtime, including networks.
func (n *Node) answers(ctx context.Context) error {
	answer, err := n.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	missing := []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady}
	for _, c := range answer.Status.Conditions {
		if c.Status {
			missing = slices.DeleteFunc(missing, func(kind string) bool { return kind == c.Type })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the runtime is not %v: %v", missing, answer.Status.Conditions)
	}
	return nil
}
