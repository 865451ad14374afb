package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Places in the machine. The working directory has the programs, and is read-only.
const (
	here       = "/here/bin"
	components = here + "/components"
	suiteDir   = here + "/nodee2e"
	work       = "/var/lib/nodee2e"
	reports    = work + "/reports"
	binDir     = work + "/bin"
	tests      = "e2e_node.test"
	socket     = "/run/containerd/containerd.sock"
	registryAt = "127.0.0.1:5000"
	nodeName   = "node"
	searchPath = components + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// cniPlugin gives every pod an address without a network, which no spec uses. The interface exists: without one
// the kubelet ends with a panic when it reads statistics from the runtime (1.37.2, addCRIPodNetworkStats).
const cniPlugin = `#!/bin/sh -e
cat > /dev/null
case $CNI_COMMAND in
ADD) nsenter --net="$CNI_NETNS" sh -ec 'ip link add eth0 type dummy; ip address add 10.100.0.2/24 dev eth0; ip link set eth0 up' >&2
  echo '{"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"'$CNI_NETNS'"}],"ips":[{"version":"4","address":"10.100.0.2/24","interface":0}]}' ;;
VERSION) echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}' ;;
esac
`

const containerdConfig = `version = 3
[grpc]
  address = "` + socket + `"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "` + pauseImage + `"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "/etc/containerd/certs.d"
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "` + components + `/runc"
      SystemdCgroup = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
    use_internal_loopback = true
`

// files are written before anything starts, by path.
var files = []struct {
	path, text string
	mode       os.FileMode
}{
	{"/usr/bin/sudo", "#!/bin/sh\nexec \"$@\"\n", 0o755}, // the tests call it, and are root
	{"/opt/cni/bin/address", cniPlugin, 0o755},
	{"/etc/cni/net.d/10-address.conflist", `{"cniVersion":"0.4.0","name":"address","plugins":[{"type":"address"}]}`, 0o644},
	{"/etc/containerd/config.toml", containerdConfig, 0o644},
	{"/etc/containerd/certs.d/_default/hosts.toml", "[host.\"http://" + registryAt + "\"]\n  capabilities = [\"pull\", \"resolve\"]\n", 0o644},
	{"/etc/resolv.conf", "nameserver 127.0.0.1\n", 0o644},
	// The kernel of the machine has no file with its configuration.
	{work + "/system.yaml", "os: Linux\nkernelSpec:\n  versions: ['^[6-9]\\..*']\n", 0o644},
}

// runNode prepares the machine, runs one spec, and reports its result.
func runNode(o *options) error {
	if os.Getenv("PLIMSOLL_VM") != "systemd" {
		return errors.New("node: this is the machine's part, and changes the system: run nodee2e suite")
	}
	s := o.specs[0]
	begin := time.Now()
	if err := prepare(); err != nil {
		return err
	}
	if err := installKubelet(o); err != nil {
		return err
	}
	if s.prepulled {
		if err := tagDigest(); err != nil {
			return err
		}
	}
	fmt.Printf("nodee2e: %s: ready after %.0f s\n", s.name, time.Since(begin).Seconds())
	err := runTests(s)
	return errors.Join(err, exportReports())
}

// installKubelet puts the tests, and the kubelet that they start, side by side: there they look for it.
func installKubelet(o *options) error {
	err := errors.Join(os.MkdirAll(binDir, 0o755), os.Symlink(suiteDir+"/"+tests, binDir+"/"+tests))
	if err != nil {
		return err
	}
	if o.mode == withPlimsoll {
		return installPlimsoll(o.agent)
	}
	return os.Symlink(components+"/kubelet", binDir+"/kubelet")
}

// prepare starts the registry and the container runtime.
func prepare() error {
	for _, f := range files {
		if err := writeFile(f.path, f.text, f.mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return err
	}
	if err := startRegistry(); err != nil {
		return err
	}
	if err := command("systemd-run", "--unit=containerd", "--slice=system.slice", "--property=Delegate=yes", "--property=KillMode=process",
		"--property=OOMScoreAdjust=-999", "--property=TasksMax=infinity", "--property=LimitNOFILE=1048576", "--setenv=PATH="+searchPath,
		"--property=StandardError=append:"+reports+"/runtime.log",
		components+"/containerd", "--config", "/etc/containerd/config.toml"); err != nil {
		return err
	}
	return await(2*time.Minute, func() error {
		return command(components+"/ctr", "--address", socket, "version")
	})
}

// writeFile writes a file, with the directories above it.
func writeFile(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_ = os.Remove(path) // it may be a link
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// command runs a program; its output is part of the error.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// await repeats a check until it succeeds. Returns its last error after the limit.
func await(limit time.Duration, check func() error) error {
	end, ticks := time.Now().Add(limit), time.NewTicker(200*time.Millisecond)
	defer ticks.Stop()
	for {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
		<-ticks.C
	}
}

// healthy checks a health endpoint.
func healthy(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// tagDigest makes the one image of the tests that is named by the digest of upstream's. It cannot be
// pulled, but the tests pull no image that the runtime has.
func tagDigest() error {
	ctr := func(args ...string) error {
		return command(components+"/ctr", append([]string{"--address", socket, "--namespace", "k8s.io", "images"}, args...)...)
	}
	if err := ctr("pull", "--hosts-dir", "/etc/containerd/certs.d", busyboxImage); err != nil {
		return err
	}
	return ctr("tag", "--skip-reference-check", busyboxImage, digestImage)
}
