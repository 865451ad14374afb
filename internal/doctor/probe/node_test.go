package probe_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// tree creates files below a new temporary directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// host is the root of a host, with its /proc below.
var host = map[string]string{
	"proc/sys/kernel/osrelease": "6.8.0-31-generic\n",
	"proc/meminfo":              "MemTotal:       16384 kB\nMemFree: 1 kB\nSwapTotal:      2048 kB\n",
	"proc/pressure/memory":      "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"proc/1/comm":               "systemd\n",
	"proc/2/comm":               "kthreadd\n",
	"proc/12/comm":              "kubelet\n",
	"proc/12/cmdline":           "/usr/bin/kubelet\x00--config\x00/var/lib/kubelet/config.yaml\x00--config-dir=/etc/kubelet.d\x00--eviction-hard=memory.available<1Gi\x00",
	"proc/13/comm":              "plimsoll\n",
	"proc/13/cmdline":           "/plimsoll\x00agent\x00--config=/a.yaml\x00",
	"proc/13/root/a.yaml":       "nodeCgroup: /nested\n",
	"proc/13/status":            "Name:\tplimsoll\nNSpid:\t13\n",
	// Processes of a pod, with the names of other programs.
	"proc/10/comm":                "kubelet\n",
	"proc/10/status":              "Name:\tkubelet\nNSpid:\t10\t1\n",
	"proc/10/cmdline":             "kubelet\x00--config=/var/lib/kubelet/config.yaml\x00--eviction-hard=memory.available<99%\x00",
	"proc/14/comm":                "earlyoom\n",
	"proc/14/status":              "Name:\tearlyoom\nNSpid:\t14\t7\t1\n",
	"var/lib/kubelet/config.yaml": kubeletHead + "evictionHard: {memory.available: 100Mi}\nimageGCHighThresholdPercent: 90\n",
	"etc/kubelet.d/10-a.conf":     kubeletHead + "imageGCHighThresholdPercent: 70\n",
	"etc/kubelet.d/90-b.conf":     kubeletHead + "imageGCHighThresholdPercent: 75\n",
	"etc/kubelet.d/README":        "no configuration",
	"dev/kmsg":                    "",
}

func options(root string) probe.NodeOptions {
	return probe.NodeOptions{HostRoot: root, ProcRoot: filepath.Join(root, "proc"), CgroupRoot: filepath.Join(root, "sys"),
		KubeletConfig: "/var/lib/kubelet/config.yaml", KubeletRoot: "/var/lib/kubelet", StateFile: filepath.Join(root, "run/plimsoll/state.json"),
		KernelLog: filepath.Join(root, "dev/kmsg"), Ours: doctor.Ours{DisarmFile: filepath.Join(root, "run/plimsoll/disarm")}}
}

func TestNode_CollectsFacts(t *testing.T) {
	f := probe.Node(t.Context(), options(tree(t, host)))
	if f.KernelRelease != doctor.Known("6.8.0-31-generic") || f.Swap != doctor.Known(signals.Bytes(2<<20)) || f.StallFault != doctor.Known("") ||
		f.StateFault != doctor.Known("") || f.Disarmed != doctor.Known(false) || f.KernelLogFault != doctor.Known("") || f.Server != nil {
		t.Errorf("%+v", f)
	}
	if c := f.Capacity; !c.Known || c.Value.Of(signals.MemoryAvailable) != 16<<20 || c.Value.Of(signals.NodefsAvailable) <= 0 || c.Value.Of(signals.PIDAvailable) != 0 {
		t.Errorf("%+v", c)
	}
	if !f.Cgroups.Known || f.Cgroups.Value.Fault == "" {
		t.Errorf("usable cgroups in a directory without any: %+v", f.Cgroups)
	}
	names := map[string]int{}
	for _, p := range f.Processes.Value {
		names[p.Name] = len(p.Args)
	}
	if !maps.Equal(names, map[string]int{"systemd": 0, "kthreadd": 0, "kubelet": 5, "plimsoll": 4}) {
		t.Errorf("processes with arguments: %v", names)
	}
	k := f.Kubelet.Value
	if !f.Kubelet.Known || !k.Present || k.Config.ImageGC.HighPercent != 75 || k.Config.Hard[0].Text != "1Gi" || !strings.HasSuffix(k.Source, "process 12 and /etc/kubelet.d") {
		t.Errorf("%+v", f.Kubelet)
	}
}

func TestNode_ReportsMissingSources(t *testing.T) {
	for name, x := range map[string]struct {
		change func(files map[string]string)
		check  func(*doctor.Facts) bool
	}{
		"missing PSI file":                {func(m map[string]string) { delete(m, "proc/pressure/memory") }, func(f *doctor.Facts) bool { return f.StallFault.Known && f.StallFault.Value != "" }},
		"missing kernel release":          {func(m map[string]string) { delete(m, "proc/sys/kernel/osrelease") }, func(f *doctor.Facts) bool { return !f.KernelRelease.Known }},
		"meminfo without swap":            {func(m map[string]string) { m["proc/meminfo"] = "MemTotal: 5 kB\n" }, func(f *doctor.Facts) bool { return !f.Swap.Known && !f.Capacity.Known }},
		"malformed meminfo":               {func(m map[string]string) { m["proc/meminfo"] = "MemTotal: x kB\nSwapTotal: 1 kB\n" }, func(f *doctor.Facts) bool { return !f.Swap.Known }},
		"disarm file":                     {func(m map[string]string) { m["run/plimsoll/disarm"] = "" }, func(f *doctor.Facts) bool { return f.Disarmed == doctor.Known(true) }},
		"missing log of the kernel":       {func(m map[string]string) { delete(m, "dev/kmsg") }, func(f *doctor.Facts) bool { return strings.Contains(f.KernelLogFault.Value, "dev/kmsg") }},
		"no kubelet":                      {func(m map[string]string) { delete(m, "var/lib/kubelet/config.yaml") }, func(f *doctor.Facts) bool { return f.Kubelet.Known && !f.Kubelet.Value.Present }},
		"malformed kubelet configuration": {func(m map[string]string) { m["var/lib/kubelet/config.yaml"] = "kind: Pod" }, func(f *doctor.Facts) bool { return !f.Kubelet.Known }},
		"malformed drop-in":               {func(m map[string]string) { m["etc/kubelet.d/10-a.conf"] = "a: [" }, func(f *doctor.Facts) bool { return !f.Kubelet.Known }},
		"missing drop-in directory": {func(m map[string]string) {
			maps.DeleteFunc(m, func(name, _ string) bool { return strings.HasPrefix(name, "etc/") })
		}, func(f *doctor.Facts) bool {
			return !f.Kubelet.Known && strings.Contains(f.Kubelet.Cause, "in a container, mount their directory")
		}},
		"processes of a container only": {func(m map[string]string) { delete(m, "proc/2/comm") }, func(f *doctor.Facts) bool {
			return !f.Processes.Known && f.Kubelet.Value.Config.ImageGC.HighPercent == 75
		}},
		"no processes": {func(m map[string]string) {
			maps.DeleteFunc(m, func(name, _ string) bool {
				return strings.HasPrefix(name, "proc/1") || strings.HasPrefix(name, "proc/2")
			})
		}, func(f *doctor.Facts) bool {
			return !f.Processes.Known && f.Kubelet.Value.Config.ImageGC.HighPercent == 90
		}},
	} {
		files := maps.Clone(host)
		x.change(files)
		if f := probe.Node(t.Context(), options(tree(t, files))); !x.check(&f) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// clientOf returns a client of a server at this address.
func clientOf(t *testing.T, url string) api.Interface {
	t.Helper()
	client, err := api.New(&rest.Config{Host: url, QPS: -1}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A probe ends with its context even if no source responds, and not by a timeout of its own. The
// cause of each unknown fact is the end of the context.
func TestNode_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var received sync.Map
	var pending sync.WaitGroup // until each source has received its request
	receive := func(what string) {
		if _, again := received.LoadOrStore(what, true); !again {
			pending.Done()
		}
	}
	silent, sources := make(chan struct{}), []string{"/version", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/api/v1/nodes/n", "/api/v1/pods", "runtime"}
	pending.Add(len(sources))
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if slices.Contains(sources, r.URL.Path) {
			receive(r.URL.Path)
		}
		<-silent
	}))
	defer server.Close()
	defer close(silent)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	l, err := net.Listen("unix", socket) // accepts and does not respond
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if c, err := l.Accept(); err == nil {
			receive("runtime")
			<-silent
			_ = c.Close()
		}
	}()
	runtime, err := cri.Open(cri.Options{Endpoint: socket, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Close() }()
	go func() {
		pending.Wait()
		cancel()
	}()
	o := options(tree(t, host))
	o.Client, o.NodeName, o.Runtime, o.AskKubelet = clientOf(t, server.URL), "n", runtime, true
	o.Rights = doctor.Needs{Namespace: "x"}.Rights()
	f := probe.Node(ctx, o)
	s := f.Server
	for what, cause := range map[string]string{"the clock": s.Ahead.Cause, "rights": s.Denied.Cause, "the node": s.KubeletVersion.Cause,
		"images": s.Images.Cause, "the runtime": f.Runtime.Value.Fault} {
		if !strings.Contains(cause, "context canceled") {
			t.Errorf("%s: %q", what, cause)
		}
	}
	if !f.Kubelet.Known || f.KernelRelease.Cause != "" {
		t.Errorf("%+v", f)
	}
}

func TestNode_ComparesClockWithDateHeader(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 700e6, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Add(-90*time.Second).Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	o := options(tree(t, host))
	o.Client, o.NodeName = clientOf(t, server.URL), "n"
	for _, c := range []struct{ begun, took, ahead time.Duration }{
		{0, 0, 90*time.Second + 200*time.Millisecond},
		{0, time.Minute, 90*time.Second + 200*time.Millisecond},
		{-time.Hour, time.Minute, 90200*time.Millisecond - time.Hour + time.Minute},
		{-2 * time.Minute, time.Minute, 0}, // the server wrote its time during the request
	} {
		at := now.Add(c.begun)
		o.Now = func() time.Time {
			defer func() { at = at.Add(c.took) }()
			return at
		}
		if s := probe.Node(t.Context(), o).Server; s.Ahead != doctor.Known(c.ahead) || s.Denied.Cause != "" {
			t.Errorf("a request of %s, begun at %s: %+v, want %s", c.took, c.begun, s, c.ahead)
		}
	}
	o.Rights = doctor.Needs{}.Rights()
	if s := probe.Node(t.Context(), o).Server; s.Denied.Known || !strings.Contains(s.Denied.Cause, "check the right to list pods") {
		t.Errorf("server with refused reviews: %+v", s.Denied)
	}
}

func TestDropIns_Sorted(t *testing.T) {
	files, err := probe.DropIns(tree(t, map[string]string{"b.conf": "2", "a.conf": "1", "c.yaml": "x", "b.d/1.conf": "3"}), nil)
	if err != nil || !slices.EqualFunc(files, []string{"1", "2", "3"}, func(a []byte, b string) bool { return string(a) == b }) {
		t.Errorf("%q, %v", files, err)
	}
	if files, err := probe.DropIns("/nowhere", nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %q, %v", files, err)
	}
}
