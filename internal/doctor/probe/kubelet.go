package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// kubelet reads the configuration of the kubelet beside the agent.
func (o *NodeOptions) kubelet(ctx context.Context, f *doctor.Facts) doctor.Fact[doctor.Kubelet] {
	if o.AskKubelet && o.Client != nil {
		if config, err := o.configz(ctx); err == nil {
			return doctor.Known(doctor.Kubelet{Present: true, Config: config, Source: "/configz"})
		}
	}
	sources, found, err := kubeletSources(f.Processes.Value, o.HostRoot, o.KubeletConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return o.without(f)
	}
	var config kubeletconfig.Config
	if err == nil {
		config, err = sources.Read()
	}
	if err != nil {
		return doctor.Unknown[doctor.Kubelet](err.Error())
	}
	return doctor.Known(doctor.Kubelet{Present: true, Config: config, Source: found})
}

// without returns the fact that follows from a missing configuration file: there is no kubelet,
// unless the Node shows one.
func (o *NodeOptions) without(f *doctor.Facts) doctor.Fact[doctor.Kubelet] {
	switch {
	case f.Server == nil:
		return doctor.Known(doctor.Kubelet{})
	case !f.Server.KubeletVersion.Known:
		return doctor.Unknown[doctor.Kubelet](o.KubeletConfig + " is not there, and whether the Node has a kubelet is not known")
	case f.Server.KubeletVersion.Value != "":
		return doctor.Unknown[doctor.Kubelet]("the Node has a kubelet, but " + o.KubeletConfig + " is not there")
	}
	return doctor.Known(doctor.Kubelet{})
}

// configz reads the kubelet's configuration through the API server.
func (o *NodeOptions) configz(ctx context.Context) (kubeletconfig.Config, error) {
	text, err := o.Client.Core().Get().Resource("nodes").Name(o.NodeName).SubResource("proxy").Suffix("configz").
		SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return kubeletconfig.Config{}, err
	}
	return kubeletconfig.ReadConfigz(text)
}

// KubeletSources reads all sources of a kubelet's configuration: the file or directory at place, and
// the flags of its command line, if it is visible in procRoot. A directory is the --config-dir of a
// kubelet without --config, as in k3s and RKE2. Returns [fs.ErrNotExist] if place does not exist.
func KubeletSources(procRoot, hostRoot, place string) (kubeletconfig.Sources, error) {
	all, err := processes(procRoot)
	if err != nil {
		all = nil // in a container that sees only its own processes, the files are the only source
	}
	sources, _, err := kubeletSources(all, hostRoot, place)
	return sources, err
}

const kubeletName = "kubelet"

func isKubelet(p doctor.Process) bool { return p.Name == kubeletName }

// Flags of a kubelet that name its configuration.
const (
	fileFlag      = "config"
	directoryFlag = "config-dir"
)

func kubeletSources(all []doctor.Process, hostRoot, place string) (s kubeletconfig.Sources, found string, err error) {
	s, flag, err := readSources(filepath.Join(hostRoot, place))
	if err != nil {
		return s, "", err
	}
	found = place
	for _, p := range all {
		given, named := kubeletconfig.Flag(p.Args, flag)
		if !isKubelet(p) || !named || filepath.Clean(given) != filepath.Clean(place) {
			continue
		}
		s.Args = p.Args
		found += fmt.Sprintf(" and the command line of process %d", p.PID)
		if dir, given := kubeletconfig.Flag(p.Args, directoryFlag); flag == fileFlag && given && dir != "" {
			found += " and " + dir
			if s.DropIns, err = DropIns(filepath.Join(hostRoot, dir), nil); err != nil {
				err = fmt.Errorf("%w; in a container, mount their directory, too", err)
			}
		}
		break
	}
	return s, found, err
}

// readSources reads a configuration file, or the drop-in files of a directory in place of it. It
// returns the flag by which a kubelet names such a place.
func readSources(place string) (s kubeletconfig.Sources, flag string, err error) {
	info, err := os.Stat(place)
	if err != nil {
		return s, "", err
	}
	if !info.IsDir() {
		s.File, err = os.ReadFile(place)
		return s, fileFlag, err
	}
	files, err := DropIns(place, nil)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("read the kubelet's drop-in files: %s has no file *.conf", place)
	}
	if err != nil {
		return s, "", err
	}
	s.File, s.DropIns = files[0], files[1:]
	return s, directoryFlag, nil
}

// DropIns reads the drop-in files of a kubelet below a directory, in the order in which it merges
// them. use, unless nil, selects them by name. Returns an error if the directory does not exist: a
// kubelet would not start without the named directory, so it exists and is not visible.
func DropIns(dir string, use func(name string) bool) (files [][]byte, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() || filepath.Ext(path) != ".conf" || use != nil && !use(entry.Name()):
			return nil
		}
		text, err := os.ReadFile(path)
		files = append(files, text)
		return err
	})
	if err != nil {
		// Not wrapped: a missing one does not show whether there is a kubelet.
		return nil, fmt.Errorf("read the kubelet's drop-in files: %v", err)
	}
	return files, nil
}
