package trial_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// machine is a complete machine as its own node: its pods are in kubepods below the root, and
// its memory is limited by its size only.
type machine struct {
	t    *testing.T
	dir  string // contains pods/ and state.json
	root string // of kubepods
}

// wholeMachine returns the machine if it is a virtual machine of the harness, and skips the
// test otherwise: its hogs fill all memory.
func wholeMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("PLIMSOLL_VM") != "1" {
		t.Skip("fills the machine's memory, which only a virtual one is made for: make test-v2")
	}
	m := &machine{t, t.TempDir(), "/sys/fs/cgroup/kubepods"}
	m.group("")
	t.Cleanup(func() {
		if err := os.Remove(m.root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(m.dir, "pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

// group creates a cgroup below kubepods, with controllers enabled for its children.
func (m *machine) group(below string) string {
	m.t.Helper()
	dir := filepath.Join(m.root, below)
	if err := os.Mkdir(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0); err != nil {
		m.t.Fatal(err)
	}
	return dir
}

// tenant is a pod with one container that runs a hog.
type tenant struct {
	*hog.Driver
	dead chan struct{}
}

func (m *machine) addTenant(name, spec, does string) *tenant {
	m.t.Helper()
	pod := m.group("poduid-" + name)
	app := filepath.Join(pod, "app")
	if err := os.Mkdir(app, 0o755); err != nil {
		m.t.Fatal(err)
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-%s}\nspec: %s\n", name, name, spec)
	if err := os.WriteFile(filepath.Join(m.dir, "pods", name+".yaml"), []byte(manifest), 0o600); err != nil {
		m.t.Fatal(err)
	}
	d, err := hog.New()
	if err != nil {
		m.t.Fatal(err)
	}
	inside, err := os.Open(app)
	if err != nil {
		m.t.Fatal(err)
	}
	defer inside.Close()
	d.Cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(inside.Fd())}
	if err := d.Cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	x := &tenant{d, make(chan struct{})}
	go func() {
		_ = d.Cmd.Wait() // the process state contains the result
		close(x.dead)
	}()
	m.t.Cleanup(func() { m.evict(x, app, pod, filepath.Join(m.dir, "pods", name+".yaml")) })
	if err := d.Ready(within(m.t, time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	if does != "" {
		if _, err := d.Do(within(m.t, 2*time.Minute), does); err != nil {
			m.t.Fatalf("%s: %s: %v", name, does, err)
		}
	}
	return x
}

// evict removes the rest of a tenant at the end of its test.
func (m *machine) evict(x *tenant, names ...string) {
	_ = x.Cmd.Process.Kill() // if it is alive
	<-x.dead
	_ = x.Close()
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			m.t.Error(err)
		}
	}
}

// oomKills returns the number of OOM kills in all cgroups since boot.
func oomKills(t *testing.T) int64 {
	t.Helper()
	n, err := sandbox.MachineOOMKills()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// available returns MemAvailable in bytes.
func available(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("no MemAvailable")
	return 0
}

// TestAgent_PreventsOOMKillOfWholeMachine: with the complete machine as the node, a pod that fills its
// memory is evicted before an OOM kill. A slow fill ends when only memory without a charged cgroup shows
// the low level. Several at once are slow: beside other load an emulated processor may stand for a second.
func TestAgent_PreventsOOMKillOfWholeMachine(t *testing.T) {
	m := wholeMachine(t)
	calm := m.addTenant("calm", trial.Requesting("2Gi"), fmt.Sprintf("fill %d", available(t)-300*mib))
	a := m.start()
	before := oomKills(t)
	for _, c := range []struct {
		hogs int
		rate string
	}{{1, " at 30MiB/s"}, {1, ""}, {4, " at 10MiB/s"}} {
		name := fmt.Sprintf("%d hogs%s", c.hogs, c.rate)
		t.Run(name, func(t *testing.T) {
			m.within(t).fill(a, c.hogs, c.rate)
			if kills := oomKills(t) - before; kills != 0 {
				t.Fatalf("got %d OOM kills, want none", kills)
			}
		})
	}
	select {
	case <-calm.dead:
		t.Error("the pod within its request was killed")
	default:
	}
}

// within returns the machine for a subtest.
func (m *machine) within(t *testing.T) *machine { return &machine{t, m.dir, m.root} }

// fill fills the machine with hogs until the agent has evicted all of them.
func (m *machine) fill(a *trial.Agent, n int, rate string) {
	m.t.Helper()
	var hogs []*tenant
	for i := range n {
		hogs = append(hogs, m.addTenant(fmt.Sprintf("hog%d-%d", time.Now().UnixNano(), i), "{containers: [{name: app, image: hog}]}", ""))
	}
	begun := time.Now()
	for _, h := range hogs {
		if err := h.Send("fill 4GiB" + rate); err != nil {
			m.t.Fatal(err)
		}
	}
	ctx := within(m.t, 3*time.Minute)
	for range hogs { // all are evicted eventually
		d, err := a.Await(ctx, agent.Evicted, agent.Failed)
		if err != nil {
			m.t.Fatal(err)
		}
		if d.Decision != agent.Evicted || d.Pod == "default/calm" {
			m.t.Errorf("decision: %+v", d)
		}
		m.t.Logf("after %.1f s (%s check): %s, rate %v, killed after %v ms", d.Time.Sub(begun).Seconds(), d.Check, d.Reason, number(d.Rate), number(d.ExitTime))
	}
	for _, h := range hogs {
		<-h.dead
	}
}

func number[N int64 | float64](n *N) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

// start starts the agent on the machine.
func (m *machine) start() *trial.Agent {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	a, err := trial.Start(ctx, binary,
		"--pod-manifests="+filepath.Join(m.dir, "pods"), "--state-file="+filepath.Join(m.dir, "state.json"),
		"--enforce-node-allocatable=none", "--container-runtime-endpoint=none", "--kubelet-config=/none",
		"--healthz-bind-address=", "--eviction-hard=memory.available<100Mi")
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			m.t.Error(err)
		}
	})
	return a
}
