package agentpods

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// maxManifestBytes bounds the size of one manifest. The API server accepts no larger object either.
const maxManifestBytes = 3 << 20

// uidForm matches valid UIDs: a UID becomes the name of a directory.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,126}[A-Za-z0-9])?$`)

// Directory is a directory of manifests: one core/v1 Pod in each *.yaml, *.yml or *.json file. It
// is read again when a file in it changed.
type Directory struct {
	path    string
	choices *Choices
	files   []file
	pods    []signals.Pod
	of      map[string]signals.Pod // by file
}

type file struct {
	name     string
	size     int64
	modified time.Time
}

// NewDirectory returns a directory without reading it.
func NewDirectory(path string, choices *Choices) *Directory {
	return &Directory{path: path, choices: choices}
}

// Pods returns the pods of the last successful Refresh.
func (d *Directory) Pods() []signals.Pod { return d.pods }

// Refresh reads the manifests again if a file was added, changed or removed. The pods are those of
// all valid manifests, in order of file name. Returns an error that names every invalid file. If
// the directory cannot be listed, the pods remain, and the next call retries.
func (d *Directory) Refresh() (changed bool, err error) {
	files, err := d.list()
	if err != nil {
		return false, fmt.Errorf("list the pod manifests in %s: %w", d.path, err)
	}
	if slices.Equal(files, d.files) && d.files != nil {
		return false, nil
	}
	var faults strictyaml.Faults
	d.files, d.pods = files, nil
	seen, of := map[string]string{}, map[string]signals.Pod{}
	for i, f := range files {
		pod, ok, err := d.read(f.name, &faults)
		if err != nil { // the known pod remains, and the next call retries
			faults.Add(f.name, "", "%v", err)
			d.files[i].size = -1
			pod, ok = d.of[f.name]
		}
		if !ok {
			continue
		}
		of[f.name] = pod
		if first, twice := seen[pod.UID]; twice {
			faults.Add(f.name+": metadata.uid", pod.UID, "also used by %s: every pod needs a UID of its own", first)
			continue
		}
		seen[pod.UID] = f.name
		d.pods = append(d.pods, pod)
	}
	d.of = of
	return true, faults.Err()
}

func (d *Directory) list() ([]file, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	files := []file{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		info, err := os.Stat(filepath.Join(d.path, e.Name()))
		if err != nil {
			continue // removed since the listing
		}
		files = append(files, file{e.Name(), info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

func (d *Directory) read(name string, faults *strictyaml.Faults) (pod signals.Pod, ok bool, err error) {
	f, err := os.Open(filepath.Join(d.path, name))
	if err != nil {
		return pod, false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err != nil {
		return pod, false, err
	}
	if len(data) > maxManifestBytes {
		faults.Add(name, "", "larger than %d bytes: this is no pod manifest", maxManifestBytes)
		return pod, false, nil
	}
	pod, found := parseManifest(data, d.choices)
	for _, f := range found {
		f.Path = strings.TrimSuffix(name+": "+f.Path, ": ")
		faults.Append(f)
	}
	return pod, len(found) == 0, nil
}

// ParseManifest parses one core/v1 Pod. metadata.name and metadata.uid are required: the UID names
// the pod's cgroup.
func ParseManifest(data []byte) (signals.Pod, strictyaml.Faults) { return parseManifest(data, nil) }

func parseManifest(data []byte, choices *Choices) (signals.Pod, strictyaml.Faults) {
	var faults strictyaml.Faults
	var pod corev1.Pod
	doc := strictyaml.Parse(data, &faults)
	if faults.Err() == nil {
		doc.Into(&pod)
	}
	if faults.Err() != nil {
		return signals.Pod{}, faults
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		faults.Add("kind", pod.APIVersion+"/"+pod.Kind, "must be apiVersion v1, kind Pod")
	}
	if pod.Name == "" {
		faults.Add("metadata.name", "", "required, but left out")
	}
	if !uidForm.MatchString(string(pod.UID)) {
		faults.Add("metadata.uid", string(pod.UID), "required, as the pod's cgroup is named by it: letters, digits and hyphens")
	}
	converted := Convert(&pod)
	choices.Apply(&converted, pod.Annotations)
	return converted, faults
}
