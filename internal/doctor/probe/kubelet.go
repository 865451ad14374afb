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

// KubeletSources reads all sources of a kubelet's configuration: the file, and the flags of its
// command line, if it is visible in procRoot. Returns [fs.ErrNotExist] if the file does not exist.
func KubeletSources(procRoot, hostRoot, file string) (kubeletconfig.Sources, error) {
	all, err := processes(procRoot)
	if err != nil {
		all = nil // in a container that sees only its own processes, the file is the only source
	}
	sources, _, err := kubeletSources(all, hostRoot, file)
	return sources, err
}

const kubeletName = "kubelet"

func kubeletSources(all []doctor.Process, hostRoot, file string) (s kubeletconfig.Sources, found string, err error) {
	if s.File, err = os.ReadFile(filepath.Join(hostRoot, file)); err != nil {
		return s, "", err
	}
	found = file
	for _, p := range all {
		given, _ := kubeletconfig.Flag(p.Args, "config")
		if p.Name != kubeletName || given != file {
			continue
		}
		s.Args = p.Args
		found += fmt.Sprintf(" and the command line of process %d", p.PID)
		if dir, given := kubeletconfig.Flag(p.Args, "config-dir"); given && dir != "" {
			found += " and " + dir
			s.DropIns, err = DropIns(filepath.Join(hostRoot, dir))
		}
		break
	}
	return s, found, err
}

// DropIns reads the drop-in files of a kubelet below a directory, in the order in which it merges
// them. Returns an error if the directory does not exist: a kubelet would not start without the
// named directory, so it exists and is not visible.
func DropIns(dir string) (files [][]byte, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() || filepath.Ext(path) != ".conf":
			return nil
		}
		text, err := os.ReadFile(path)
		files = append(files, text)
		return err
	})
	if err != nil {
		// Not wrapped: a missing one does not show whether there is a kubelet.
		return nil, fmt.Errorf("read the kubelet's drop-in files: %v; in a container, mount their directory, too", err)
	}
	return files, nil
}
