package cluster

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Images of every node. Both contain one static program; containerd pins the first as the image
// of sandboxes.
const (
	PauseImage = "plimsoll.test/pause:1"
	HogImage   = "plimsoll.test/hog:1"
)

// Image is created here and imported without a registry.
type Image struct {
	Name string // plimsoll.test/NAME:TAG
	// Size is the amount of random data in bytes, in a separate layer of the image. On disk an
	// image takes about twice as much: the packed layer and the unpacked one.
	Size  int64
	Files int  // number of empty files, one inode each after unpacking
	Runs  bool // contains the program of [HogImage], so that pods can use it
}

// importOwnImages stores the program of the containers on the node and imports both images.
func (n *Node) importOwnImages(ctx context.Context) error {
	if err := n.provideWorkload(); err != nil {
		return err
	}
	return n.Import(ctx, Image{Name: PauseImage, Runs: true}, Image{Name: HogImage, Runs: true})
}

func (n *Node) provideWorkload() error {
	if built, err := Prebuilt(n.dir, "workload"); built || err != nil {
		return err
	}
	program, err := workload()
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("workload"), program, 0o755)
}

// workload is the program of the containers. Linking it takes a second of a processor, so that the nodes of
// a process share it. Returns the error of the compiler.
var workload = sync.OnceValues(func() ([]byte, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plimsoll-workload-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "workload")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "./test/harness/cluster/workload")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	return os.ReadFile(file)
})

// MakeImages imports count distinct images of size bytes each and returns their names,
// plimsoll.test/PREFIX-NUMBER:1. Returns an error if one can not be imported.
func (n *Node) MakeImages(ctx context.Context, prefix string, count int, size int64) ([]string, error) {
	var images []Image
	var names []string
	for i := range count {
		images = append(images, Image{Name: fmt.Sprintf("plimsoll.test/%s-%d:1", prefix, i), Size: size})
		names = append(names, images[i].Name)
	}
	return names, n.Import(ctx, images...)
}

// Import creates images, has containerd unpack them, and waits until the runtime lists them.
// Returns an error if one can not be imported.
func (n *Node) Import(ctx context.Context, images ...Image) error {
	for _, i := range images {
		if err := n.importOne(ctx, i); err != nil {
			return fmt.Errorf("import image %s: %w", i.Name, err)
		}
	}
	return nil
}

func (n *Node) importOne(ctx context.Context, i Image) error {
	dir, err := os.MkdirTemp(n.dir, "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "archive.tar")
	if err := i.write(archive, dir, n.path("workload")); err != nil {
		return err
	}
	return n.Load(ctx, archive, i.Name)
}

// Load imports the images in an archive (OCI layout or docker-archive) into containerd and
// waits until the runtime lists the named image. Returns an error if the import fails or ctx
// ends first.
func (n *Node) Load(ctx context.Context, archive, name string) error {
	return n.images(ctx, name, "import", archive)
}

// Tag gives an image of the node a second name. Returns an error unless the runtime lists it.
func (n *Node) Tag(ctx context.Context, name, alias string) error {
	return n.images(ctx, alias, "tag", name, alias)
}

// images runs a command on the node's images, and waits until the runtime lists the image.
func (n *Node) images(ctx context.Context, image string, args ...string) error {
	ctr, err := program("ctr")
	if err != nil {
		return err
	}
	args = append([]string{"images"}, args...)
	cmd := n.Enter(exec.Command(ctr, append([]string{"--address", n.Socket, "--namespace", "k8s.io"}, args...)...))
	cmd = exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return await(ctx, func(ctx context.Context) error {
		status, err := n.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
		if err == nil && status.Image == nil {
			err = fmt.Errorf("the runtime does not list it")
		}
		return err
	})
}

// write creates a docker-archive: layers, a configuration, and a manifest with their names.
func (i Image) write(archive, dir, program string) error {
	var layers, digests []string
	add := func(name string, fill func(*tar.Writer) error) error {
		digest, err := writeTar(filepath.Join(dir, name), fill)
		layers, digests = append(layers, name), append(digests, digest)
		return err
	}
	if i.Runs {
		if err := add("program.tar", func(w *tar.Writer) error { return addFile(w, "workload", program) }); err != nil {
			return err
		}
	}
	if err := add("data.tar", i.data); err != nil {
		return err
	}
	config := map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/workload"}, "Env": []string{"PLIMSOLL_IMAGE=" + i.Name}}, // distinct image IDs
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	}
	manifest := []map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": layers}}
	_, err := writeTar(archive, func(w *tar.Writer) error {
		for _, name := range layers {
			if err := addFile(w, name, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		if err := addJSON(w, "config.json", config); err != nil {
			return err
		}
		return addJSON(w, "manifest.json", manifest)
	})
	return err
}

// data fills a layer with random data, unique to this image.
func (i Image) data(w *tar.Writer) error {
	if err := w.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: i.Size}); err != nil {
		return err
	}
	random := rand.NewChaCha8(sha256.Sum256([]byte(i.Name)))
	if _, err := io.CopyN(w, random, i.Size); err != nil {
		return err
	}
	for f := range i.Files {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("files/%d", f), Mode: 0o644}); err != nil {
			return err
		}
	}
	return nil
}

// writeTar creates a tar file and returns its digest.
func writeTar(path string, fill func(*tar.Writer) error) (digest string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, sum))
	if err := fill(w); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

func addFile(w *tar.Writer, name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

func addJSON(w *tar.Writer, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
