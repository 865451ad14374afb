package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// release is the Debian release of the machine with systemd. The crun of an older one does not know
// containerd's version of the OCI specification.
const release = "trixie"

// packages lists what a node has beside the components: systemd and its bus, and the programs
// that a kubelet, a runtime and the tests execute.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "util-linux", "mount", "procps", "e2fsprogs", "crun", "libseccomp2", "ca-certificates",
}

// rootFiles are written over those of the packages. A machine without an ID would preset every
// unit. systemd limits each scope to 15 % of the machine's tasks, and tests lower that number.
var rootFiles = map[string]string{
	"etc/hosts":                            "127.0.0.1 localhost\n",
	"etc/hostname":                         "node\n",
	"etc/fstab":                            "",
	"etc/machine-id":                       strings.Repeat("b", 32) + "\n",
	"etc/systemd/system.conf.d/tasks.conf": "[Manager]\nDefaultTasksMax=infinity\n",
}

// rootSize is the maximum size of the root file system, a sparse file.
const rootSize = "12G"

// provideRoot returns the root file system: from the cache, or made with mmdebstrap. The name
// contains its packages and files, so that a change of these makes a new one. Services of more
// packages do not start with the machine.
func provideRoot(ctx context.Context, release string, more []string) (string, error) {
	dir, err := cache()
	if err != nil {
		return "", err
	}
	names := strings.Join(slices.Concat(packages, more), ",")
	file := filepath.Join(dir, fmt.Sprintf("%s-%.6x.ext4", release, sha256.Sum256(fmt.Append(nil, names, rootFiles))))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := install(map[string]string{"mmdebstrap": "mmdebstrap", keyring: keyringPackage}); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(os.Stderr, "vm: making a root file system of %s\n", release)
	begin, tree, image := time.Now(), filepath.Join(work, "tree"), filepath.Join(work, "image")
	remedy := "the root file system comes from " + mirror + ": check that apt works and reaches it, or remove " + dir
	if err := command(ctx, remedy, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include="+names, release, tree, debianSource(release)); err != nil {
		return "", err
	}
	for _, dir := range []string{wire.Here, "/var/lib/containerd", "/etc/systemd/system.conf.d"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return "", err
		}
	}
	if len(more) > 0 {
		if err := disableServices(tree); err != nil {
			return "", err
		}
	}
	for name, text := range rootFiles {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if err := makeFilesystem(ctx, image, rootSize, "-d", tree); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "vm: made it in %.0f s\n", time.Since(begin).Seconds())
	return file, os.Rename(image, file)
}

// disableServices removes the links by which packages have enabled their services. Those of systemd itself
// and the plan's are elsewhere.
func disableServices(tree string) error {
	wanted, err := filepath.Glob(filepath.Join(tree, "etc/systemd/system/*.wants"))
	for _, dir := range wanted {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// command runs a program; its output is part of the error.
func command(ctx context.Context, remedy, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s\n%s", name, strings.Join(args, " "), err, remedy, out)
	}
	return nil
}

// built lists the programs that tests would build with the Go toolchain, which the machine does
// not have: the file in bin/built, and the arguments of go.
var built = []struct {
	name string
	args []string
}{
	{"workload", []string{"build", "-ldflags=-s -w", "-o", "FILE", "./test/harness/cluster/workload"}},
	{"plimsoll", []string{"build", "-trimpath", "-ldflags=-s -w -X main.version=whole", "-o", "FILE", "./cmd/plimsoll"}},
	{"kubectl-plimsoll", []string{"build", "-trimpath", "-ldflags=-s -w -X main.version=whole", "-o", "FILE", "./cmd/kubectl-plimsoll"}},
	{"plimsoll.tar", []string{"-C", "deploy/image", "run", ".", "-version", "whole", "-out", "DIRECTORY", "amd64=DIRECTORY/plimsoll"}},
}

// putSystem copies what the tests of a whole node need into the files of the working directory.
func (i *image) putSystem(ctx context.Context) error {
	for _, tree := range []string{"go.mod", "deploy/helm", "deploy/rbac", "deploy/admission"} {
		if err := i.putTree(tree); err != nil {
			return err
		}
	}
	components, err := filepath.Glob("bin/components/*")
	if err != nil || len(components) == 0 {
		return errors.Join(err, errors.New("bin/components is empty: run make components"))
	}
	for _, name := range components {
		if _, err := i.put(name); err != nil {
			return err
		}
	}
	dir := i.at(filepath.Join(here, "bin/built"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, b := range built {
		args := slices.Clone(b.args)
		for n := range args {
			args[n] = strings.NewReplacer("FILE", filepath.Join(dir, b.name), "DIRECTORY", dir).Replace(args[n])
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "SOURCE_DATE_EPOCH=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}

// filesDisk moves the files of the working directory out of the initramfs to a disk of their
// own.
func (i *image) filesDisk(ctx context.Context) (string, error) {
	tree, file := filepath.Join(i.dir, "files"), filepath.Join(i.dir, "files.ext4")
	if err := os.Rename(i.at(here), tree); err != nil {
		return "", err
	}
	var size int64
	err := filepath.WalkDir(tree, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return file, makeFilesystem(ctx, file, fmt.Sprintf("%dM", size*5/4>>20+64), "-d", tree)
}

// runNode implements the mode node: the tests of one package in a machine with systemd.
func runNode(ctx context.Context, o *options) (int, error) {
	packages, err := listPackages(o.args[:1])
	if err != nil {
		return 1, err
	}
	if len(packages) != 1 {
		return 1, fmt.Errorf("%s are %d packages, want one", o.args[0], len(packages))
	}
	i, err := newImage()
	if err != nil {
		return 1, err
	}
	defer i.remove()
	if err := errors.Join(i.putSystem(ctx), i.putTests(packages)); err != nil {
		return 1, err
	}
	control, err := i.startControlPlane(ctx, o)
	if err != nil {
		return 1, err
	}
	defer control.Close()
	p := packages[0]
	args := append([]string{p.program(), "-test.paniconexit0", "-test.timeout=" + (o.limit - time.Minute).String()}, o.args[1:]...)
	plan := []wire.Command{{
		Args: args, Dir: filepath.Join(here, p.dir), Limit: o.limit,
		Env: append([]string{"CI=true", "CONTROL_PLANE=" + filepath.Join(here, controlPlane), "PLIMSOLL=" + filepath.Join(here, product), fmt.Sprintf("PLIMSOLL_VM_SLOWER=%d", slower)}, o.env...),
	}}
	if err := i.runPlan(ctx, o, packages, plan); err != nil {
		fmt.Fprint(os.Stderr, control.Logs())
		return 1, err
	}
	return 0, nil
}

// startControlPlane starts the components that are not the node's on this machine: they would only
// make the emulation slower.
func (i *image) startControlPlane(ctx context.Context, o *options) (*cluster.Cluster, error) {
	if err := cluster.Missing(); err != nil {
		return nil, err
	}
	control, err := cluster.Start(ctx, cluster.Options{Components: cluster.ControlPlane})
	if err != nil {
		return nil, err
	}
	if o.forward, err = cluster.FreePort(); err == nil {
		err = control.Export(i.at(filepath.Join(here, controlPlane)), cluster.SeenFromMachine, o.forward)
	}
	if err != nil {
		return nil, errors.Join(err, control.Close())
	}
	return control, nil
}

// controlPlane is the directory with the exported control plane.
const controlPlane = "bin/controlplane"

// slower is the factor for the waits of tests in an emulated machine.
const slower = 6
