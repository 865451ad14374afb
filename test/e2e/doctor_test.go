package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// The configuration of these tests' kubelet before it shared its node.
const (
	kubeletEvicts = `{memory.available: 250Mi, nodefs.available: 1%}`
	kubeletBefore = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
)

// doctorEnv is a real node, with a kubelet configured by an import, for a doctor to examine.
type doctorEnv struct {
	*env
	agent string // its configuration
}

// newNode imports a kubelet's configuration and starts the kubelet with it.
func newNode(t *testing.T) *doctorEnv {
	t.Helper()
	dir := t.TempDir()
	before := filepath.Join(dir, "before.yaml")
	write(t, before, kubeletBefore+"evictionHard: "+kubeletEvicts+"\nsystemReserved: {memory: 300Mi}\n")
	if out, err := exec.Command(binary, "import-kubelet-config", before, "--output-dir="+dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := withKubelet(map[string]any{
		"evictionHard":   map[string]string{"memory.available": "250Mi", "nodefs.available": "1%"},
		"systemReserved": map[string]string{"memory": "300Mi"},
	})
	o.Components |= cluster.Controllers
	o.ControllerList = "*"
	o.Args = map[cluster.Components][]string{cluster.Kubelet: {"--config-dir=" + dir}, cluster.Controllers: {"--leader-elect=true"}}
	return &doctorEnv{env: newEnv(t, o), agent: filepath.Join(dir, "agent.yaml")}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// found is the output and the exit status of a doctor.
type found struct {
	Findings []doctor.Finding
	status   int
	text     string
}

func (f found) has(code string) bool {
	return slices.ContainsFunc(f.Findings, func(x doctor.Finding) bool { return x.Code == code })
}

// serious returns the findings above severity info.
func (f found) serious() (all []doctor.Finding) {
	for _, x := range f.Findings {
		if x.Severity != doctor.Info {
			all = append(all, x)
		}
	}
	return all
}

// call runs a doctor; the last of two equal flags counts.
func call(t *testing.T, args ...string) (f found) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"doctor", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		f.status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	f.text = out.String() + errs.String()
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatalf("%v: %s", err, f.text)
	}
	return f
}

func (w *doctorEnv) flags() []string {
	return []string{
		"--config=" + w.agent, "--kubeconfig=" + w.kubeconfig, "--hostname-override=" + cluster.NodeName,
		"--container-runtime-endpoint=unix://" + w.Node.Socket, "--node-cgroup=" + w.Node.Cgroup,
		"--root-dir=" + w.Node.KubeletRoot, "--kubelet-config=" + w.Node.KubeletConfig,
		"--state-file=" + w.state, "--disarm-file=" + w.state + ".disarm", "--max-fill-rate=1Gi",
	}
}

// TestDoctor_OnNode checks that a node configured by an import has no findings and the same
// allocatable resources as before. Then it introduces faults, and each must be found.
func TestDoctor_OnNode(t *testing.T) {
	w := newNode(t)
	clean := call(t, w.flags()...)
	if clean.status != 0 || len(clean.serious()) > 0 {
		t.Errorf("a clean node: status %d: %s", clean.status, clean.text)
	}
	admin, err := w.Kubeconfig(w.Admin())
	if err != nil {
		t.Fatal(err)
	}
	if checked := call(t, append(w.flags(), "--kubeconfig="+admin)...); checked.status != 0 || len(checked.serious()) > 0 {
		t.Errorf("a clean node with access to its kubelet: status %d: %s", checked.status, checked.text)
	}
	w.allocatableAsBefore()
	for _, p := range w.faults() {
		t.Run(p.code, func(t *testing.T) {
			if p.do != nil {
				defer p.do()()
			}
			got := call(t, append(w.flags(), p.args...)...)
			if !got.has(p.code) || got.status != p.status {
				t.Errorf("status %d, want %d with %s: %s", got.status, p.status, p.code, got.text)
			}
			for _, x := range got.Findings {
				if x.Code != p.code && !clean.has(x.Code) && !slices.Contains(p.too, x.Code) {
					t.Errorf("%s is found, too: %s", x.Code, x.What)
				}
			}
		})
	}
}

// allocatableAsBefore checks allocatable against the kubelet's earlier reservations.
func (w *doctorEnv) allocatableAsBefore() {
	w.t.Helper()
	n, err := w.API.CoreV1().Nodes().Get(w.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	want := n.Status.Capacity[corev1.ResourceMemory]
	want.Sub(resource.MustParse("550Mi"))
	if got := n.Status.Allocatable[corev1.ResourceMemory]; got.Cmp(want) != 0 {
		w.t.Errorf("memory: %s allocatable, it was %s", got.String(), want.String())
	}
	disk := n.Status.Capacity[corev1.ResourceEphemeralStorage]
	left := disk.Value() - int64(float64(disk.Value())*float64(float32(1)/100))
	if got := n.Status.Allocatable[corev1.ResourceEphemeralStorage]; got.Value() != left {
		w.t.Errorf("ephemeral-storage: %d allocatable, it was %d", got.Value(), left)
	}
}

// faultCase is one fault to introduce.
type faultCase struct {
	code   string
	status int
	args   []string
	too    []string      // other codes that follow from it
	do     func() func() // returns its undo
}

const unreported = "kubelet-does-not-report"

func (w *doctorEnv) faults() []faultCase {
	kubelet := func(text string) string { return "--kubelet-config=" + w.file("kubelet.yaml", kubeletBefore+text) }
	const shared = "evictionHard: {memory.available: 100Mi, nodefs.available: 1%}\nevictionSoft: {memory.available: 250Mi, nodefs.available: 2%}\n" +
		"evictionSoftGracePeriod: {memory.available: 8760h, nodefs.available: 8760h}\n"
	// If the kubelet is not found, its drop-in files are not found either.
	machine := func(process, swap, kernel string, stalls bool) []string {
		return []string{kubelet(shared), w.proc(process, swap, kernel, stalls)}
	}
	return []faultCase{
		{code: "kubelet-hard-memory", status: 3, args: []string{kubelet("evictionHard: " + kubeletEvicts)}, too: []string{unreported, "kubelet-hard-other"}},
		{code: unreported, args: []string{kubelet("evictionHard: {memory.available: 100Mi, nodefs.available: 1%}")}},
		{code: "kubelet-soft-evicts", status: 3, args: []string{kubelet(strings.NewReplacer("memory.available: 8760h", "memory.available: 1m", "250Mi", "400Mi").Replace(shared))}},
		{code: "kubelet-no-backstop", args: []string{kubelet(strings.Replace(shared, "100Mi", "0%", 1))}},
		{code: "image-gc-both", args: []string{kubelet(shared), "--garbage-collection=on"}},
		{code: "storage-limits-both", args: []string{"--local-storage-limits=on"}},
		{code: "kubelet-blind", args: []string{kubelet(shared + "localStorageCapacityIsolation: false")}},
		{code: "storage-limits-unenforced", args: []string{kubelet(shared + "localStorageCapacityIsolation: false"), "--local-storage-limits=off"}, too: []string{"kubelet-blind"}},
		{code: "unknown-kubelet", status: 1, args: []string{"--kubelet-config=/nowhere/config.yaml"}},
		{code: "systemd-oomd", do: func() func() { return w.process("systemd-oomd") }},
		{code: "other-eviction-agent", status: 3, args: machine("earlyoom", "SwapTotal: 0 kB", "6.1.0", true)},
		{code: "swap-on", args: machine("sh", "SwapTotal: 2097152 kB", "6.1.0", true)},
		{code: "psi-off", args: machine("sh", "SwapTotal: 0 kB", "6.1.0", false)},
		{code: "kernel-old", status: 3, args: machine("sh", "SwapTotal: 0 kB", "4.19.0-26-amd64", true)},
		{code: "right-missing", status: 3, args: []string{"--pressure-taint"}},
		{code: "runtime-unreachable", args: []string{"--container-runtime-endpoint=unix:///nowhere/containerd.sock"}},
		{code: "cgroups-unusable", status: 3, args: []string{"--cgroup-root=/usr"}},
		{code: "threshold-small", args: []string{"--max-fill-rate=64Gi"}},
		{code: "disarmed-by-file", args: []string{"--disarm-file=" + w.file("disarm", "")}},
		{code: "clock-skew-large", status: 3, do: w.skewed},
	}
}

// file creates a file in a directory of its own.
func (w *doctorEnv) file(name, text string) string {
	file := filepath.Join(w.t.TempDir(), name)
	write(w.t, file, text)
	return file
}

// skewed delays the API server's clock by an hour.
func (w *doctorEnv) skewed() (undo func()) {
	w.Front.Answer(http.StatusOK, func(r *http.Request) bool { return r.URL.Path == "/version" }, "Date: "+time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	return w.Front.Forward
}

// process runs a process with that name. The returned function ends it.
func (w *doctorEnv) process(name string) (end func()) {
	w.t.Helper()
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), name)
	if err := os.WriteFile(file, text, 0o755); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(file, "600")
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it reports the kill
	}
}

// proc creates a /proc with one process, the given swap and kernel, with or without pressure
// stall information.
func (w *doctorEnv) proc(process, swap, kernel string, stalls bool) (flag string) {
	w.t.Helper()
	root := w.t.TempDir()
	files := map[string]string{"2/comm": "kthreadd\n", "77/comm": process + "\n", "77/cmdline": process + "\x00", "sys/kernel/osrelease": kernel + "\n", "meminfo": "MemTotal: 16777216 kB\n" + swap + "\n"}
	if stalls {
		files["pressure/memory"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			w.t.Fatal(err)
		}
		write(w.t, filepath.Join(root, name), text)
	}
	return "--proc-root=" + root
}

// TestDoctor_OfCluster covers the view from outside a node: agents by their leases, the program
// that monitors nodes, and the admission bounds of agents.
func TestDoctor_OfCluster(t *testing.T) {
	w := newNode(t)
	admin, err := w.Kubeconfig(w.Admin())
	if err != nil {
		t.Fatal(err)
	}
	check := func() found { t.Helper(); return call(t, "--cluster", "--kubeconfig="+admin) }
	if got := check(); !got.has("no-agents") || !got.has("policy-missing") || got.status != 3 {
		t.Errorf("a cluster without Plimsoll: status %d: %s", got.status, got.text)
	}
	w.start("--eviction-hard=memory.available<250Mi", "--max-fill-rate=1Gi")
	w.until("the agent's lease exists", func() bool { return !check().has("no-agents") })
	w.until("kube-controller-manager leads", func() bool { return !check().has("no-lifecycle-controller") })
	w.restarted = true // the policy refuses a token without a node; the lease remains valid for some time
	w.apply("agent-own-node.yaml")
	if got := check(); got.status != 0 || len(got.serious()) > 0 {
		t.Errorf("a clean cluster: status %d: %s", got.status, got.text)
	}
	w.controllerActs()
	if got := check(); got.status != 3 || !got.has("two-lifecycle-controllers") {
		t.Errorf("two controllers: status %d: %s", got.status, got.text)
	}
}

// controllerActs creates the objects of a controller in mode replace: a lease, and a pod with
// its command line. It also creates the pod of kube-controller-manager.
func (w *doctorEnv) controllerActs() {
	w.t.Helper()
	now, seconds, holder := metav1.NowMicro(), int32(3600), "here"
	const name, namespace = "plimsoll-controller", "plimsoll-system"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	if _, err := w.API.CoordinationV1().Leases(namespace).Create(w.t.Context(), lease, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.shown(namespace, name, corev1.Container{Args: []string{"controller", "--mode=replace"}})
	w.shown("kube-system", "kube-controller-manager", corev1.Container{Command: []string{"kube-controller-manager", "--leader-elect=true"}})
}

// shown creates a pod with a command line; it never runs.
func (w *doctorEnv) shown(namespace, name string, c corev1.Container) {
	w.t.Helper()
	if err := w.Namespace(w.t.Context(), namespace); err != nil {
		w.t.Fatal(err)
	}
	c.Name, c.Image = name, "none"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	if _, err := w.API.CoreV1().Pods(namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
