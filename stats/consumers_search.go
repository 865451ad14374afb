package stats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// diskSearch collects the consumers of one filesystem.
type diskSearch struct {
	UsedFilesystem
	inodes      bool
	directories []*hostDirectory
	found       []signals.Consumer
	unmeasured  []string
	broad       pathList // hostPaths that contain directories of pods or images, or are in them
	more        pathList // hostPaths beyond the maximum number
	long        pathList // hostPaths with a path that is not stored
}

// hostDirectory is a directory to be measured.
type hostDirectory struct {
	path string
	kind signals.ConsumerKind
	pod  string // namespace/name of a pod that mounts it; empty for none
	pods int    // number of these pods
}

// amount returns the amount in the unit of the signal.
func (m *diskSearch) amount(bytes signals.Bytes, inodes signals.Inodes) signals.Amount {
	if m.inodes {
		return signals.Amount(inodes)
	}
	return signals.Amount(bytes)
}

func (m *diskSearch) add(c signals.Consumer) { m.found = append(m.found, c) }

// Bounds of the hostPaths of one search. A user may create any number of them.
const (
	maxHostDirectories = 256
	maxHostPaths       = 4096
)

// list lists the directories to measure: those of the node, and hostPaths in between, so that neither
// delays the other. A hostPath that contains an excluded directory, or is in one, is not measured: most
// are those of programs that observe the node, and the walk would visit the whole disk.
func (m *diskSearch) list(node, excluded []string) {
	known := map[string]*hostDirectory{}
	var own, mounted []*hostDirectory
	for _, dir := range node {
		if dir != "" && known[dir] == nil && !slices.Contains(excluded, dir) {
			known[dir] = &hostDirectory{path: dir, kind: signals.ConsumerDirectory}
			own = append(own, known[dir])
		}
	}
	for _, h := range m.hostPaths() {
		d := known[h.path]
		switch {
		case d != nil:
		case slices.ContainsFunc(excluded, func(dir string) bool { return isBelow(dir, h.path) || isBelow(h.path, dir) }):
			m.broad.add(h.path, h.pod)
			continue
		case len(own)+len(mounted) == maxHostDirectories:
			m.more.add(h.path, h.pod)
			continue
		default:
			d = &hostDirectory{path: h.path, kind: signals.ConsumerHostPath}
			known[h.path], mounted = d, append(mounted, d)
		}
		d.mount(h.pod, 1)
	}
	for i := range max(len(own), len(mounted)) {
		if i < len(mounted) {
			m.directories = append(m.directories, mounted[i])
		}
		if i < len(own) {
			m.directories = append(m.directories, own[i])
		}
	}
}

// mount adds pods that mount the directory.
func (d *hostDirectory) mount(pod string, pods int) {
	if d.pod == "" {
		d.pod = pod
	}
	d.pods += pods
}

// isBelow reports whether a path is another one, or is below it.
func isBelow(below, above string) bool {
	return below == above || above == "/" || strings.HasPrefix(below, above+"/")
}

// mountedPath is the path of a hostPath of a pod.
type mountedPath struct{ path, pod string }

// hostPaths returns the hostPaths of all pods, those of evictable pods first. Of each pod the first one
// comes before the second one of any, so that a pod with many does not hide those of others.
func (m *diskSearch) hostPaths() (all []mountedPath) {
	var lists [2][][]mountedPath
	for i := range m.Active {
		p := &m.Active[i]
		protected := 0
		if p.Protection != signals.Unprotected {
			protected = 1
		}
		if paths := m.hostPathsOf(p); len(paths) > 0 {
			lists[protected] = append(lists[protected], paths)
		}
	}
	for _, of := range lists {
		for k := 0; len(of) > 0; k++ {
			of = slices.DeleteFunc(of, func(paths []mountedPath) bool { return len(paths) <= k })
			for _, paths := range of {
				if len(all) == maxHostPaths {
					m.more.add(paths[k].path, paths[k].pod)
					continue
				}
				all = append(all, paths[k])
			}
		}
	}
	return all
}

// hostPathsOf returns the different paths of the hostPaths of a pod. Those of the kernel's filesystems
// and of filesystems in memory are left out.
func (m *diskSearch) hostPathsOf(p *signals.Pod) (paths []mountedPath) {
	seen := map[string]bool{}
	for _, named := range p.HostPaths {
		at := path.Clean(named)
		switch {
		case named == "":
			m.long.add("of "+p.Key(), "")
		case !path.IsAbs(at), seen[at]:
		case slices.ContainsFunc(inMemory, func(dir string) bool { return isBelow(at, dir) }):
		default:
			seen[at] = true
			paths = append(paths, mountedPath{at, p.Key()})
		}
	}
	return paths
}

// inMemory are directories of filesystems of the kernel and in memory.
var inMemory = []string{"/proc", "/sys", "/dev", "/run", "/var/run"}

// apply adds the measured directories and the rest.
func (m *diskSearch) apply(usages []hostUsage) {
	for i, u := range usages { // one directory may have several paths
		if u.same >= 0 {
			m.directories[u.same].mount(m.directories[i].pod, m.directories[i].pods)
		}
	}
	var absent, hidden, late, failed pathList
	var cause error
	for i := range usages {
		u, d := &usages[i], m.directories[i]
		switch {
		case u.same >= 0, errors.Is(u.err, errOtherFilesystem), errors.Is(u.err, errNoFile):
		case errors.Is(u.err, errNotReached):
			late.add(d.path, d.pod)
		case errors.Is(u.err, errExcluded): // by a symbolic link
			m.broad.add(d.path, d.pod)
		case errors.Is(u.err, fs.ErrNotExist) && d.pod != "":
			absent.add(d.path, d.pod)
		case errors.Is(u.err, fs.ErrNotExist):
			if u.partial {
				hidden.add(d.path, "")
			}
		case u.err != nil:
			failed.add(d.path, d.pod)
			cause = cmp.Or(cause, u.err)
		default:
			m.add(d.consumer(u, m.amount(u.bytes, u.inodes)))
		}
	}
	rest := m.Used
	for i := range m.found {
		rest -= min(rest, m.found[i].Amount)
	}
	m.add(signals.Consumer{Name: "unaccounted", Kind: signals.ConsumerUnaccounted, Amount: rest})
	m.listUnmeasured(&absent, &hidden, &late)
	if failed.n > 0 {
		m.unmeasured = append(m.unmeasured, failed.text("directories without an answer")+"; the first: "+signals.PrintableName(cause.Error()))
	}
}

// listUnmeasured adds the directories that are not measured.
func (m *diskSearch) listUnmeasured(absent, hidden, late *pathList) {
	for _, list := range []struct {
		paths *pathList
		about string
	}{
		{absent, "hostPaths not visible to the agent"},
		{hidden, "directories of the node not visible to the agent"},
		{&m.broad, "hostPaths that contain directories of pods or images, or are in them"},
		{late, "directories not reached in time"},
		{&m.more, "hostPaths beyond the maximum number"},
		{&m.long, "hostPaths with a path that is too long"},
	} {
		if list.paths.n > 0 {
			m.unmeasured = append(m.unmeasured, list.paths.text(list.about))
		}
	}
}

// consumer returns the directory as a consumer.
func (d *hostDirectory) consumer(u *hostUsage, amount signals.Amount) signals.Consumer {
	c := signals.Consumer{Name: signals.PrintableName(d.path), Kind: d.kind, Amount: amount, Pod: d.pod, Incomplete: signals.PrintableName(u.short)}
	if d.pods > 1 {
		c.Pods = d.pods
	}
	return c
}

func (m *diskSearch) consumption() signals.Consumption {
	return signals.Consumption{Largest: largest(m.found), Unmeasured: m.unmeasured[:min(len(m.unmeasured), signals.MaxConsumers)]}
}

// pathList is a number of directories with the names of the first ones.
type pathList struct {
	n     int
	names []string
}

// maxNamedPaths is the number of names of a pathList.
const maxNamedPaths = 3

func (l *pathList) add(path, pod string) {
	if l.n++; len(l.names) == maxNamedPaths {
		return
	}
	name := signals.PrintableName(path)
	if pod != "" {
		name += " (" + pod + ")"
	}
	l.names = append(l.names, name)
}

func (l *pathList) text(about string) string {
	text := fmt.Sprintf("%s (%d): %s", about, l.n, strings.Join(l.names, ", "))
	if l.n > len(l.names) {
		text += ", ..."
	}
	return text
}
