// Components builds the real programs for the tests of the agent: etcd, the control plane, the
// kubelet, containerd, runc, helm and promtool, each at the version that a go.mod pins. By name it also builds
// Kubernetes' own node tests and the program of their pods. Binaries stay in
// a cache by version, so that a machine builds each once; an interrupted build resumes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is one program and its build configuration.
type component struct {
	name   string
	module string // directory of the go.mod that pins it, relative to here
	source string // the module that defines its version
	pkg    string // below source
	flags  []string
	stamp  string       // variable for its version; Kubernetes' programs have theirs
	cgo    bool         // needs cgo; the others share the compiled packages without it
	needs  func() error // checks the prerequisites of the build
	tests  bool         // the tests of a package, with longer waits
	byName bool         // built only if it is named
}

// stripped omits the symbol tables, which would double the cache.
const stripped = "-s -w"

// withoutDiscovery omits the clients of two dozen clouds from promtool.
const withoutDiscovery = "remove_all_sd"

var components = []component{
	{name: "containerd", module: "containerd", source: "github.com/containerd/containerd/v2", pkg: "cmd/containerd"},
	{name: "containerd-shim-runc-v2", module: "containerd", source: "github.com/containerd/containerd/v2", pkg: "cmd/containerd-shim-runc-v2"},
	{name: "ctr", module: "containerd", source: "github.com/containerd/containerd/v2", pkg: "cmd/ctr"},
	{name: "runc", module: "runc", source: "github.com/opencontainers/runc", flags: []string{"-tags", "seccomp"}, cgo: true, needs: libseccomp},
	{name: "etcd", module: ".", source: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", module: ".", source: "k8s.io/kubernetes", pkg: "cmd/kube-apiserver"},
	{name: "kubectl", module: ".", source: "k8s.io/kubernetes", pkg: "cmd/kubectl"},
	{name: "kubelet", module: ".", source: "k8s.io/kubernetes", pkg: "cmd/kubelet"},
	{name: "kube-controller-manager", module: ".", source: "k8s.io/kubernetes", pkg: "cmd/kube-controller-manager"},
	{name: "kube-scheduler", module: ".", source: "k8s.io/kubernetes", pkg: "cmd/kube-scheduler"},
	{name: "e2e_node.test", module: "e2enode", source: "k8s.io/kubernetes", pkg: "test/e2e_node", tests: true, byName: true},
	{name: "agnhost", module: "e2enode", source: "k8s.io/kubernetes", pkg: "test/images/agnhost", byName: true},
	{name: "promtool", module: "promtool", source: "github.com/prometheus/prometheus", pkg: "cmd/promtool", flags: []string{"-tags", withoutDiscovery}},
	{name: "helm", module: "helm", source: "helm.sh/helm/v4", pkg: "cmd/helm", stamp: "helm.sh/helm/v4/internal/version.version"},
}

func main() {
	out := flag.String("o", filepath.Join("..", "..", "..", "bin", "components"), "directory for the links to the programs")
	var others releases
	flag.StringVar(&others.kubernetes, "kubernetes", "", "build Kubernetes of this `RELEASE`, such as 1.36; empty: the one of this directory's go.mod")
	flag.StringVar(&others.containerd, "containerd", "", "build containerd of this `RELEASE`, such as 1.7, or take its programs from a directory, such as /usr/bin; empty: the one of containerd/go.mod")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: components [-o DIRECTORY] [-kubernetes RELEASE] [-containerd RELEASE|DIRECTORY] [NAME…]\nRun it in its own directory. It builds the named components, or all but those of the node tests.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*out, others, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "components:", err)
		os.Exit(1)
	}
}

// releases are those to build; an empty one is that of the component's module.
type releases struct{ kubernetes, containerd string }

func run(out string, others releases, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(components, func(c component) bool { return c.name == name }) {
			return fmt.Errorf("there is no component %q", name)
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, c := range components {
		if !slices.Contains(names, c.name) && (len(names) > 0 || c.byName) {
			continue
		}
		if c.module == "containerd" && strings.Contains(others.containerd, "/") {
			program, err := filepath.Abs(filepath.Join(others.containerd, c.name))
			if err != nil {
				return err
			}
			if _, err := os.Stat(program); err != nil {
				return fmt.Errorf("take %s from -containerd %s: %w", c.name, others.containerd, err)
			}
			if err := link(program, filepath.Join(out, c.name)); err != nil {
				return err
			}
			continue
		}
		c, err := c.of(others)
		if err != nil {
			return err
		}
		version, err := c.provide(out)
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.name, version, err)
		}
	}
	return nil
}

// of returns the component of another release, if there is one to build.
func (c component) of(others releases) (component, error) {
	release, directory := "", ""
	switch c.module {
	case ".":
		release, directory = others.kubernetes, "kubernetes-"
	case "containerd":
		release, directory = others.containerd, "containerd-"
	}
	if release == "" {
		return c, nil
	}
	pins, err := readPins(c.module)
	if err != nil {
		return c, err
	}
	source := c.source
	if c.module == "." {
		source = "k8s.io/kubernetes"
	}
	version, err := pins.version(source)
	if err != nil || strings.HasPrefix(version, release+".") {
		return c, err
	}
	c.module = directory + release
	if strings.HasPrefix(c.module, "containerd-1.") {
		c.source = strings.TrimSuffix(c.source, "/v2")
	}
	return c, nil
}

// provide builds the component unless it is in the cache, and links to it.
func (c component) provide(out string) (version string, err error) {
	pins, err := readPins(c.module)
	if err != nil {
		return "", err
	}
	if version, err = pins.version(c.source); err != nil {
		return "", err
	}
	flags, err := c.buildFlags(pins)
	if err != nil {
		return version, err
	}
	inputs := append([]string{c.cgoEnabled()}, flags...)
	if c.tests {
		inputs = append(inputs, fmt.Sprint(slower), waits.String())
	}
	cache, err := pins.cache(inputs)
	if err != nil {
		return version, err
	}
	program := filepath.Join(cache, c.name)
	switch _, err := os.Stat(program); {
	case err == nil:
		fmt.Printf("%s %s: cached\n", c.name, version)
	case errors.Is(err, os.ErrNotExist):
		begin := time.Now()
		fmt.Printf("%s %s: building\n", c.name, version)
		if err := c.build(program, flags); err != nil {
			return version, err
		}
		fmt.Printf("%s %s: built in %.0f s\n", c.name, version, time.Since(begin).Seconds())
	default:
		return version, err
	}
	return version, link(program, filepath.Join(out, c.name))
}

// buildFlags sets the version of programs. Without it Kubernetes' programs report v0.0.0, and
// clients of other versions would reject them; helm would not report its patch release.
func (c component) buildFlags(p *pins) ([]string, error) {
	ld := stripped
	if c.kubernetes() || c.source == "k8s.io/kubernetes" {
		kubernetes, err := p.version("k8s.io/kubernetes")
		if err != nil {
			return nil, err
		}
		numbers := strings.SplitN(kubernetes, ".", 3)
		const set = " -X k8s.io/component-base/version."
		ld += set + "gitVersion=v" + kubernetes + set + "gitMajor=" + numbers[0] + set + "gitMinor=" + numbers[1]
	}
	if c.stamp != "" {
		version, err := p.version(c.source)
		if err != nil {
			return nil, err
		}
		ld += " -X " + c.stamp + "=v" + version
	}
	if c.tests {
		return append([]string{"test", "-c", "-vet=off", "-ldflags", ld}, c.flags...), nil
	}
	return append([]string{"build", "-ldflags", ld}, c.flags...), nil
}

// kubernetes reports whether the component comes from a module that pins Kubernetes.
func (c component) kubernetes() bool {
	return c.module == "." || strings.HasPrefix(c.module, "kubernetes-")
}

// build writes to a temporary name and renames: a file with the right name is complete, even
// with concurrent builds.
func (c component) build(program string, flags []string) error {
	if c.needs != nil {
		if err := c.needs(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	unfinished := fmt.Sprintf("%s.%d", program, os.Getpid())
	defer os.Remove(unfinished)
	pkg := c.source
	if c.pkg != "" {
		pkg += "/" + c.pkg
	}
	if c.tests {
		copied, overlay, remove, err := longerWaits(c.module, pkg)
		if err != nil {
			return err
		}
		defer remove()
		pkg, flags = copied, append(flags, overlay)
	}
	// The tags of this project's own programs, in GOFLAGS, are not those of components.
	args := slices.Concat([]string{flags[0], "-tags="}, flags[1:], []string{"-o", unfinished, pkg})
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.module, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), c.cgoEnabled(), "GOGC=off", "GOMEMLIMIT=1500MiB") // garbage collection is a third of the compiler's time
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w", strings.Join(cmd.Args, " "), c.module, err)
	}
	return os.Rename(unfinished, program)
}

// cgoEnabled returns the only environment setting that changes the program.
func (c component) cgoEnabled() string {
	if c.cgo {
		return "CGO_ENABLED=1"
	}
	return "CGO_ENABLED=0"
}

// link replaces a link atomically, so that it always exists for concurrent users of the
// program.
func link(program, name string) error {
	if at, err := os.Readlink(name); err == nil && at == program {
		return nil
	}
	unfinished := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.Symlink(program, unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, name)
}

// libseccomp is the only required C library.
func libseccomp() error {
	if exec.Command("pkg-config", "--exists", "libseccomp").Run() == nil {
		return nil
	}
	for _, step := range [][]string{
		{"apt-get", "update", "-qq"},
		{"apt-get", "install", "-y", "-qq", "--no-install-recommends", "gcc", "libc6-dev", "libseccomp-dev", "pkg-config"},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: install libseccomp's headers and pkg-config by hand\n%s", strings.Join(step, " "), err, out)
		}
	}
	return nil
}
