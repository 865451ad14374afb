package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxManifest bounds a file in bytes.
const maxManifest = 1 << 20

// manifests serves the pods of a directory. Files that go are ignored: an object of a pod outlives its
// processes.
type manifests struct {
	dir   string
	api   *api
	known map[string]bool // names of files
	fd    int             // of inotify
}

func (m *manifests) watch() (err error) {
	if m.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(m.fd, m.dir, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO)
	return err
}

// follow reads the directory after each change. It returns only with an error.
func (m *manifests) follow() error {
	buffer := make([]byte, 64<<10)
	for {
		if _, err := unix.Read(m.fd, buffer); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for manifests: %w", err)
		}
		if err := m.read(); err != nil {
			return err
		}
	}
}

// read adds the pods of files that are new. A file that is not complete yet is read again later.
func (m *manifests) read() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if m.known[e.Name()] || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the pod has ended
		}
		if err != nil {
			return err
		}
		if len(text) > maxManifest {
			return fmt.Errorf("manifest %s: %d bytes, at most %d", e.Name(), len(text), maxManifest)
		}
		var pod object
		if json.Unmarshal(text, &pod) != nil {
			continue
		}
		if err := complete(pod); err != nil {
			return fmt.Errorf("manifest %s: %w", e.Name(), err)
		}
		m.api.add("pods", pod)
		m.known[e.Name()] = true
	}
	return nil
}

// complete sets the fields of a pod that an API server and a scheduler set. A pod has the network of the node,
// and is not started again.
func complete(pod object) error {
	spec, _ := pod["spec"].(object)
	metadata, _ := pod["metadata"].(object)
	containers, _ := spec["containers"].([]any)
	if metadata["name"] == nil || metadata["uid"] == nil || len(containers) == 0 {
		return errors.New("want a pod with a name, a UID and containers")
	}
	maps.Copy(spec, object{
		"nodeName": nodeName, "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "Default", "hostNetwork": true,
		"enableServiceLinks": false, "automountServiceAccountToken": false, "schedulerName": "default-scheduler", "tolerations": []any{object{"operator": "Exists"}},
		"securityContext": object{}, // without it the kubelet requests no network of the node, and then ends the pod for that
	})
	for _, c := range containers {
		container, isObject := c.(object)
		if !isObject {
			return errors.New("a container is no object")
		}
		container["imagePullPolicy"] = "IfNotPresent"
		container["terminationMessagePath"], container["terminationMessagePolicy"] = "/dev/termination-log", "File"
		requestLimits(container)
	}
	pod["status"] = object{"phase": "Pending"}
	return nil
}

// requestLimits makes requests of limits that have none.
func requestLimits(container object) {
	resources, _ := container["resources"].(object)
	limits, _ := resources["limits"].(object)
	requests, _ := resources["requests"].(object)
	if requests == nil && limits != nil {
		requests = object{}
		resources["requests"] = requests
	}
	for name, limit := range limits {
		if requests[name] == nil {
			requests[name] = limit
		}
	}
}
