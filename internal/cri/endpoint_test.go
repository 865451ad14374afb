package cri

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseEndpoint_NormalizesOrRejects(t *testing.T) {
	long := "/" + strings.Repeat("x", maxPath)
	for text, want := range map[string]string{
		"unix:///run/containerd/containerd.sock": "unix:///run/containerd/containerd.sock",
		"/run/crio/crio.sock":                    "unix:///run/crio/crio.sock",
		"unix:/run/crio/crio.sock":               "unix:///run/crio/crio.sock",
		"unix:////run/./crio/crio.sock":          "unix:///run/crio/crio.sock",
		long[:maxPath]:                           "unix://" + long[:maxPath],
	} {
		if got, err := ParseEndpoint(text); err != nil || got != want {
			t.Errorf("%q: got %q, error %v, want %q", text, got, err, want)
		}
	}
	for text, fault := range map[string]string{
		"":                                "is empty",
		"tcp://127.0.0.1:1234":            "unix socket",
		"npipe:////./pipe/containerd":     "unix socket",
		"unix://run/containerd.sock":      "no absolute path",
		"run/containerd.sock":             "no absolute path",
		"unix://":                         "no absolute path",
		"unix://@abstract":                "no absolute path",
		"/run/a\x00b":                     "no absolute path",
		"/run/containerd/":                "directory",
		long:                              "more than 107 bytes",
		"unix:///run/containerd.sock\x00": "no absolute path",
	} {
		got, err := ParseEndpoint(text)
		if err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		} else if !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), "write unix:///") {
			t.Errorf("%q: error %q does not contain %q and the expected form", text, err, fault)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, text := range []string{"", "/a", "unix:///a", "unix:a", "tcp://a", "///", "unix:////"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseEndpoint(text)
		if err != nil {
			return
		}
		if again, err := ParseEndpoint(got); err != nil || again != got {
			t.Errorf("%q: got %q, which parses as %q, error %v", text, got, again, err)
		}
	})
}

// host creates a root of a host with these sockets. t.TempDir is too long for the path of a socket.
func host(t *testing.T, names ...string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	return root
}

func TestFind_FindsEachDefaultSocket(t *testing.T) {
	for _, name := range sockets {
		root := host(t, name)
		if got, err := Find(root); err != nil || got != "unix://"+filepath.Join(root, name) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestFind_CountsLinkedSocketOnce(t *testing.T) {
	root := host(t, "run/crio/crio.sock")
	if err := os.Mkdir(filepath.Join(root, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root); err != nil || !strings.HasSuffix(got, root+"/run/crio/crio.sock") {
		t.Errorf("one socket with two paths: got %q, error %v", got, err)
	}
}

func TestFind_FailsWithoutSocket(t *testing.T) {
	root := host(t)
	if err := os.MkdirAll(filepath.Join(root, "run/containerd/containerd.sock"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := host(t, "crio.sock") // like /host/run/crio -> /run/crio: outside the host's root
	if err := os.Symlink(outside, filepath.Join(root, "run/crio")); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{root, filepath.Join(root, "absent")} {
		if got, err := Find(where); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %q, %v", where, got, err)
		}
	}
	_, err := Find(root)
	for _, name := range sockets {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name the path %s", err, name)
		}
	}
}

func TestFind_RejectsSeveralSockets(t *testing.T) {
	root := host(t, "run/containerd/containerd.sock", "run/cri-dockerd.sock")
	if got, err := Find(root); err == nil || !strings.Contains(err.Error(), "several") || !strings.Contains(err.Error(), flag) {
		t.Errorf("got %q, error %v, want an error that names the flag", got, err)
	}
}

// The host's root precedes the runtime's socket, given or found.
func TestLocate_IsBelowRoot(t *testing.T) {
	for _, tc := range []struct{ root, given, want string }{
		{"/", "unix:///run/crio/crio.sock", "unix:///run/crio/crio.sock"},
		{"/host", "unix:///run/crio/crio.sock", "unix:///host/run/crio/crio.sock"},
		{"/host", "/run/crio/crio.sock", "unix:///host/run/crio/crio.sock"},
	} {
		if got, err := Locate(tc.given, tc.root); got != tc.want || err != nil {
			t.Errorf("%s below %s: %q, %v, want %q", tc.given, tc.root, got, err, tc.want)
		}
	}
	if got, err := Locate("tcp://127.0.0.1:1", "/"); err == nil {
		t.Errorf("a TCP endpoint: got %q, want an error", got)
	}
	for _, given := range []string{None, ""} {
		if got, err := Locate(given, t.TempDir()); !errors.Is(err, ErrNoRuntime) {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}
