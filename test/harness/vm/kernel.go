package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// flavour is Debian's kernel for virtual machines: small, with all features of a node.
	flavour = "linux-image-cloud-amd64"
	// kernelSuite is the Debian release of the kernel, unless another one is named: Linux 6.1.
	// 6.12 panics in the emulation of qemu 7.2.
	kernelSuite = "bookworm"
	// mirror is Debian's own. The sources of this machine's apt can be those of another distribution.
	mirror = "http://deb.debian.org/debian"
	// keyring has the keys that sign Debian's archive. Other distributions have a package with it.
	keyring        = "/usr/share/keyrings/debian-archive-keyring.gpg"
	keyringPackage = "debian-archive-keyring"
)

// drivers are the modules of the disks, and of what a node needs beside them: layers of images,
// small file systems, network interfaces of the machine and of pods. They are in the order of their dependencies.
var drivers = []string{"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "overlay", "loop", "failover", "net_failover", "virtio_net", "dummy"}

// kernel is the part of a package that boots a machine.
type kernel struct {
	name    string // of the package
	vmlinuz string
	modules []string // paths that sort in the order of loading
}

// programs maps the required programs to their Debian packages.
var programs = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"cpio":               "cpio",
	"xz":                 "xz-utils",
	"mke2fs":             "e2fsprogs",
}

// install installs missing programs; more maps further ones, and files, to their packages.
func install(more map[string]string) error {
	required := maps.Clone(programs)
	maps.Copy(required, more)
	missing := missingPackages(required)
	if len(missing) == 0 {
		return nil
	}
	remedy := "install " + strings.Join(missing, ", ") + " by hand"
	if os.Geteuid() != 0 {
		return errors.New("a virtual machine requires missing packages: " + remedy + ", or run as root")
	}
	if err := apt(remedy, "", "update", "-qq"); err != nil {
		return err
	}
	return apt(remedy, "", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
}

// missingPackages returns the packages of programs and absolute paths that do not exist.
func missingPackages(required map[string]string) (missing []string) {
	for name, pkg := range required {
		_, err := exec.LookPath(name)
		if filepath.IsAbs(name) {
			_, err = os.Stat(name)
		}
		if err != nil {
			missing = append(missing, pkg)
		}
	}
	slices.Sort(missing)
	return missing
}

// apt runs apt-get.
func apt(remedy, dir string, args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s\n%s", strings.Join(cmd.Args, " "), err, remedy, out)
	}
	return nil
}

// kernels returns the directory of a suite's kernels by version, with the modules of the present
// list.
func kernels(suite string) (string, error) {
	dir, err := cache()
	name := fmt.Sprintf("kernels-%.4x", sha256.Sum256([]byte(strings.Join(drivers, " "))))
	if suite != kernelSuite {
		name += "-" + suite
	}
	return filepath.Join(dir, name), err
}

// cache returns the directory of kernels and root file systems.
func cache() (string, error) {
	if dir := os.Getenv("PLIMSOLL_VM_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: or set PLIMSOLL_VM_CACHE to a directory for kernels", err)
	}
	return filepath.Join(user, "plimsoll", "vm"), nil
}

// provide returns the newest kernel of a Debian suite in the cache, or fetches one. To get a newer
// one, remove the cache.
func provide(suite string) (*kernel, error) {
	dir, err := kernels(suite)
	if err != nil {
		return nil, err
	}
	cached, err := filepath.Glob(filepath.Join(dir, "linux-image-*"))
	if err != nil {
		return nil, err
	}
	if len(cached) == 0 {
		name, err := fetch(dir, suite)
		if err != nil {
			return nil, fmt.Errorf("provide a kernel: %w", err)
		}
		cached = []string{filepath.Join(dir, name)}
	}
	slices.SortFunc(cached, func(a, b string) int { return compareVersions(filepath.Base(a), filepath.Base(b)) })
	newest := cached[len(cached)-1]
	k := &kernel{name: filepath.Base(newest), vmlinuz: filepath.Join(newest, "vmlinuz")}
	k.modules, err = filepath.Glob(filepath.Join(newest, "*.ko"))
	return k, err
}

// compareVersions orders the names of packages by their numbers.
func compareVersions(a, b string) int {
	numbers := func(name string) (n []int) {
		for _, field := range strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
			var v int
			_, _ = fmt.Sscan(field, &v) // digits only
			n = append(n, v)
		}
		return n
	}
	return slices.Compare(numbers(a), numbers(b))
}

// fetch unpacks the kernel's package and stores the parts for a machine under the package's
// name. A directory with the right name is always complete.
func fetch(dir, suite string) (name string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "fetching-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := install(map[string]string{keyring: keyringPackage}); err != nil {
		return "", err
	}
	remedy := "the kernel comes from " + mirror + " (" + flavour + "): check that apt works and reaches it"
	source, err := aptSource(suite, work)
	if err != nil {
		return "", err
	}
	if err := apt(remedy, "", append(source, "update", "-qq")...); err != nil {
		return "", err
	}
	if name, err = newestPackage(source); err != nil {
		return "", fmt.Errorf("%w: %s", err, remedy)
	}
	fmt.Fprintf(os.Stderr, "vm: fetching %s\n", name)
	// As root, apt would read the archive as a user without access to this directory.
	if err := apt(remedy, work, append(source, "-o", "APT::Sandbox::User=root", "download", "-qq", name)...); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("apt-get download %s left %v, %v: want one package", name, archives, err)
	}
	if out, err := exec.Command("dpkg-deb", "--extract", archives[0], filepath.Join(work, "all")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("dpkg-deb --extract %s: %w\n%s", archives[0], err, out)
	}
	if err := copyFiles(filepath.Join(work, "all"), filepath.Join(work, "kept")); err != nil {
		return "", fmt.Errorf("take %s apart: %w", name, err)
	}
	return name, os.Rename(filepath.Join(work, "kept"), filepath.Join(dir, name))
}

// debianSource returns the line of sources.list for one suite of Debian.
func debianSource(suite string) string {
	return "deb [signed-by=" + keyring + "] " + mirror + " " + suite + " main"
}

// aptSource returns the options with which apt knows one suite of Debian only, with its lists in
// dir.
func aptSource(suite, dir string) ([]string, error) {
	list, lists := filepath.Join(dir, "sources.list"), filepath.Join(dir, "lists", "partial")
	if err := os.MkdirAll(lists, 0o755); err != nil {
		return nil, err
	}
	options := []string{"-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null", "-o", "Dir::State::Lists=" + filepath.Dir(lists),
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "-o", "APT::Default-Release=" + suite}
	return slices.Clip(options), os.WriteFile(list, []byte(debianSource(suite)+"\n"), 0o644)
}

// newestPackage returns the package that the flavour depends on.
func newestPackage(source []string) (string, error) {
	out, err := exec.Command("apt-cache", append(source, "depends", flavour)...).Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache depends %s: %w", flavour, err)
	}
	for line := range strings.Lines(string(out)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); found {
			return "linux-image-" + name, nil
		}
	}
	return "", fmt.Errorf("apt-cache depends %s names no kernel:\n%s", flavour, out)
}

// copyFiles copies the kernel and the modules, numbered, out of the package. Modules that the kernel
// contains are omitted; Debian compresses those of newer kernels.
func copyFiles(all, cached string) error {
	images, err := filepath.Glob(filepath.Join(all, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return fmt.Errorf("boot/ holds the kernels %v, %v: want one", images, err)
	}
	if err := copyFile(filepath.Join(cached, "vmlinuz"), images[0]); err != nil {
		return err
	}
	built, err := builtIn(all)
	if err != nil {
		return err
	}
	for i, name := range drivers {
		var found []string
		err := filepath.WalkDir(filepath.Join(all, "lib/modules"), func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.TrimSuffix(e.Name(), ".xz") == name+".ko" {
				found = append(found, path)
			}
			return err
		})
		if err == nil && len(found) == 0 && (slices.Contains(built, name) || strings.HasPrefix(name, "virtio_pci_")) {
			continue // part of the kernel, or, in older ones, of virtio_pci
		}
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the modules %s are %v, %v: want one", name, found, err)
		}
		module, compressed := strings.CutSuffix(found[0], ".xz")
		if compressed {
			if out, err := exec.Command("xz", "--decompress", found[0]).CombinedOutput(); err != nil {
				return fmt.Errorf("xz --decompress %s: %w\n%s", found[0], err, out)
			}
		}
		if err := copyFile(filepath.Join(cached, fmt.Sprintf("%02d-%s.ko", i, name)), module); err != nil {
			return err
		}
	}
	return nil
}

// builtIn returns the names of the modules that are part of the package's kernel.
func builtIn(all string) (names []string, err error) {
	lists, err := filepath.Glob(filepath.Join(all, "lib/modules/*/modules.builtin"))
	if err != nil || len(lists) != 1 {
		return nil, fmt.Errorf("the package has the lists of modules %v, %v: want one", lists, err)
	}
	text, err := os.ReadFile(lists[0])
	for line := range strings.Lines(string(text)) {
		names = append(names, strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko"))
	}
	return names, err
}
