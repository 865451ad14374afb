package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Pod is a pod's cgroup.
type Pod struct {
	UID        string
	Path       string // relative to each controller's mount, with a leading slash
	Inode      uint64 // of its directory in the memory controller's tree
	Containers []Container
}

// Container is a direct child of a pod's cgroup.
type Container struct {
	Name string // the container's id without the runtime's prefix
	Path string // relative to each controller's mount
}

// IsMonitor reports whether the cgroup is not a container's, but that of CRI-O's monitor process
// (conmon, with conmon_cgroup = "pod"). conmon records the exit of the container. If conmon is
// killed with its container, CRI-O reports the container as running forever.
func (c Container) IsMonitor() bool { return strings.HasPrefix(path.Base(c.Path), "crio-conmon-") }

// PodTree is the kubepods directory of a node.
type PodTree struct {
	h    Hierarchy
	root string // relative to each controller's mount
	name string // the root's name without ".slice"; empty with the cgroupfs driver
}

// Root returns the tree's path relative to each controller's mount.
func (t PodTree) Root() string { return t.root }

func (t PodTree) exists() bool {
	info, err := os.Lstat(t.h.Dir("memory", t.root))
	return err == nil && info.IsDir()
}

// classDir returns the path of the directory of a QoS class's pods.
func (t PodTree) classDir(class string) string {
	switch {
	case class == "":
		return t.root
	case t.name == "":
		return path.Join(t.root, class)
	}
	return path.Join(t.root, t.name+"-"+class+slice)
}

// Classes returns the paths of the QoS classes' directories, the tree's own last.
func (t PodTree) Classes() []string {
	var dirs []string
	for _, class := range qosClasses {
		if class != "" {
			dirs = append(dirs, t.classDir(class))
		}
	}
	return append(dirs, t.root)
}

// podDir returns the path of a pod's directory.
func (t PodTree) podDir(class, uid string) string {
	if t.name == "" {
		return path.Join(t.classDir(class), podPrefix+uid)
	}
	name := t.name
	if class != "" {
		name += "-" + class
	}
	return path.Join(t.classDir(class), name+"-"+podPrefix+strings.ReplaceAll(uid, "-", "_")+slice)
}

// Find returns a pod by the three possible paths of its directory, without listing the tree.
// Returns an error that wraps fs.ErrNotExist if there is none.
func (t PodTree) Find(uid string) (Pod, error) {
	if !validUID(uid) {
		return Pod{}, fmt.Errorf("find the cgroup of pod %q: a UID has letters, digits and dashes: %w", uid, fs.ErrNotExist)
	}
	for _, class := range qosClasses {
		p, err := t.pod(uid, t.podDir(class, uid))
		if !IsGone(err) {
			return p, err
		}
	}
	return Pod{}, fmt.Errorf("find the cgroup of pod %s below %s: %w", uid, t.root, fs.ErrNotExist)
}

// Pods returns all pods of the tree, unordered. Pods that vanish meanwhile are omitted. Returns
// an error if a directory can not be listed.
func (t PodTree) Pods() ([]Pod, error) {
	var pods []Pod
	for _, class := range qosClasses {
		dir := t.classDir(class)
		names, err := t.below(dir)
		if IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the pods of %s: %w", dir, err)
		}
		for _, name := range names {
			place := path.Join(dir, name)
			uid, ok := ParsePodPath(place)
			if !ok {
				continue
			}
			p, err := t.pod(uid, place)
			if IsGone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// pod returns the pod with its directory at place.
func (t PodTree) pod(uid, place string) (Pod, error) {
	info, err := os.Lstat(t.h.Dir("memory", place))
	if err != nil {
		return Pod{}, fmt.Errorf("find the cgroup of pod %s: %w", uid, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return Pod{}, fmt.Errorf("find the cgroup of pod %s: %s is no directory: %w", uid, place, fs.ErrNotExist)
	}
	names, err := t.below(place)
	if err != nil {
		return Pod{}, fmt.Errorf("list the containers of pod %s: %w", uid, err)
	}
	p := Pod{UID: uid, Path: place, Inode: st.Ino, Containers: make([]Container, len(names))}
	for i, name := range names {
		p.Containers[i] = Container{ContainerName(name), path.Join(place, name)}
	}
	return p, nil
}

// below returns the names of the direct child cgroups.
func (t PodTree) below(dir string) ([]string, error) {
	entries, err := os.ReadDir(t.h.Dir("memory", dir))
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, filepath.Base(e.Name()))
		}
	}
	return names, nil
}

// IsGone reports whether err means that a cgroup does not exist, or was removed during a read.
func IsGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
