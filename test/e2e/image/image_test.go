package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// The inputs of make image, instead of values from git and the clock.
const (
	version  = "v0.0.0-test"
	revision = "5c1e0a7e3f3b4d6c8a9b0c1d2e3f405162738495"
	created  = "1795289862"
	name     = "registry.plimsoll.dev/plimsoll:" + version
)

// copied returns a copy of the tree without the files that git ignores.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = filepath.Join("..", "..", "..")
	names, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the tree: %v: run this in a clone", err)
	}
	for file := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(list.Dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, but not committed yet
		}
		to := filepath.Join(dir, file)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// made returns the output of make image in a copy of the tree, for this machine's architecture
// alone. Other architectures differ only in the compiler's output.
func made(t *testing.T) string {
	t.Helper()
	dir := copied(t)
	run := exec.CommandContext(t.Context(), "make", "-C", dir, "image",
		"ARCHS="+runtime.GOARCH, "VERSION="+version, "REVISION="+revision, "SOURCE_DATE_EPOCH="+created)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make image: %v\n%s", err, out)
	}
	return filepath.Join(dir, "bin", "image")
}

func read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// maxProgram bounds the size of the program. Beyond it, an import has probably brought all types of
// the Kubernetes API, or a call of reflect that keeps all methods (docs/internals/decisions/038).
const maxProgram = 30e6

func checkSize(t *testing.T, program string) {
	t.Helper()
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxProgram {
		t.Errorf("the program has %d bytes, at most %d are expected", info.Size(), int(maxProgram))
	}
}

func TestImage_IsReproducibleAndRuns(t *testing.T) {
	cluster.Need(t)
	here, there := made(t), made(t)
	digest := read(t, here, "plimsoll.digest")
	checkSize(t, filepath.Join(filepath.Dir(here), "image", "binaries", runtime.GOARCH))
	t.Logf("an archive of %d bytes, %s", len(read(t, here, "plimsoll.tar")), digest)
	for _, file := range []string{"plimsoll.tar", "plimsoll.digest", "sbom." + runtime.GOARCH + ".cdx.json"} {
		if read(t, here, file) != read(t, there, file) {
			t.Errorf("%s is not the same from another directory", file)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	node := cluster.Make(t, cluster.Options{Components: cluster.Containerd}).Node
	if err := node.Load(ctx, filepath.Join(here, "plimsoll.tar"), name); err != nil {
		t.Fatal(err)
	}
	checkImage(t, ctx, node, strings.TrimSpace(digest))
	printed, want := output(t, ctx, node, "version"), fmt.Sprintf("plimsoll %s (revision %s, %s, linux/%s)", version, revision, runtime.Version(), runtime.GOARCH)
	if !strings.Contains(printed, want) {
		t.Errorf("plimsoll version printed\n%s\nin its image, want %q", printed, want)
	}
}

// checkImage checks name, user and digest of the image in the runtime.
func checkImage(t *testing.T, ctx context.Context, node *cluster.Node, digest string) {
	t.Helper()
	answer, err := node.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		t.Fatal(err)
	}
	if tags := answer.Image.RepoTags; len(tags) != 1 || tags[0] != name {
		t.Errorf("got tags %q in the runtime, want only %s", tags, name)
	}
	if user := answer.Image.Uid; user == nil || user.Value != 65532 {
		t.Errorf("it runs as %v, want 65532", user)
	}
	ctr, err := cluster.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	list, err := node.Enter(exec.Command(ctr, "--address", node.Socket, "--namespace", "k8s.io", "images", "list", "name=="+name)).CombinedOutput()
	if err != nil || !strings.Contains(string(list), digest) {
		t.Errorf("containerd lists, %v:\n%swant the digest %s", err, list, digest)
	}
}

// output returns the output of the program in a container of its image.
func output(t *testing.T, ctx context.Context, node *cluster.Node, args ...string) string {
	t.Helper()
	pod, err := node.AddPod(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plimsoll"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: name, Args: args}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := time.NewTicker(20 * time.Millisecond)
	defer ended.Stop()
	for {
		answer, err := node.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: pod.Containers["main"]})
		if err != nil {
			t.Fatal(err)
		}
		log := read(t, pod.Logs, filepath.Join("main", "0.log"))
		if status := answer.Status; status.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			if status.ExitCode != 0 {
				t.Errorf("it ended with %d: %s", status.ExitCode, status.Message)
			}
			return log
		}
		select {
		case <-ended.C:
		case <-ctx.Done():
			t.Fatalf("the container did not end: %s", log)
		}
	}
}
