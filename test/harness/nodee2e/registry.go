package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// registry serves the images of the tests to the container runtime, which uses it as the mirror of
// every registry. An image is made when it is first requested.
type registry struct {
	dir string

	mu    sync.Mutex
	blobs map[string]string // files by digest
	tags  map[string][]byte // manifests by name and by digest
}

func startRegistry() error {
	r := &registry{dir: work + "/blobs", blobs: map[string]string{}, tags: map[string][]byte{}}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	l, err := net.Listen("tcp", registryAt)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, r) }() // until the end of the machine
	return nil
}

// ServeHTTP implements what a runtime needs of the OCI distribution specification.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	path, found := strings.CutPrefix(request.URL.Path, "/v2/")
	switch {
	case request.Method != http.MethodGet && request.Method != http.MethodHead || !found:
		http.NotFound(w, request)
	case path == "":
		w.WriteHeader(http.StatusOK)
	default:
		if err := r.serve(w, request, path); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
		}
	}
}

func (r *registry) serve(w http.ResponseWriter, request *http.Request, path string) error {
	if repository, reference, is := strings.Cut(path, "/manifests/"); is {
		text, err := r.manifest(registryOf(request.URL.Query().Get("ns"), repository, reference), reference)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", digest(text))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if request.Method == http.MethodGet {
			_, _ = w.Write(text) // the client is gone
		}
		return nil
	}
	_, sum, is := strings.Cut(path, "/blobs/")
	r.mu.Lock()
	file, known := r.blobs[sum]
	r.mu.Unlock()
	if !is || !known {
		return errors.New("there is no such blob")
	}
	w.Header().Set("Docker-Content-Digest", sum)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFile(w, request, file)
	return nil
}

// manifest returns the manifest of an image, by its tag or its digest.
func (r *registry) manifest(name, reference string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byDigest := strings.HasPrefix(reference, "sha256:")
	if byDigest {
		name = reference
	}
	if text := r.tags[name]; text != nil {
		return text, nil
	}
	if byDigest {
		return nil, errors.New("there is no such manifest")
	}
	made, err := bake(name, r.dir)
	if err != nil {
		return nil, err
	}
	for sum, file := range made.blobs {
		r.blobs[sum] = file
	}
	r.tags[name], r.tags[digest(made.manifest)] = made.manifest, made.manifest
	return made.manifest, nil
}

func digest(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }
