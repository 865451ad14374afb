package arena_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/role"
)

const mib = 1 << 20

func TestMain(m *testing.M) {
	role.RunIfAsked()
	if len(os.Args) > 1 && os.Args[1] == "make-node" {
		if err := makeNode(os.Args[2]); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		_, _ = unix.Ppoll(nil, nil, nil)
	}
	os.Exit(m.Run())
}

// need skips the test where no node can be made, and fails it with CI=true.
func need(t *testing.T) arena.Layout {
	t.Helper()
	l, err := arena.Detect()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI=true and no node can be made: %v", err)
	default:
		t.Skip(err)
	}
	return l
}

// TestNode_ContainsAndRemoves starts processes in a node, and looks for what is left of it.
func TestNode_ContainsAndRemoves(t *testing.T) {
	layout := need(t)
	n, err := arena.New(arena.Options{Limit: 64 * mib})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	pod, err := n.AddPod("1-2", arena.Burstable, "main", 32*mib)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := n.AddService("daemon")
	if err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	for _, place := range []*arena.Place{pod, daemon, n.ContestantPlace()} {
		cmd := place.Command(500, "sleep", "600")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		await(t, "sleep in its cgroup", func() bool {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
			return string(text) == "sleep\n"
		})
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
		if err != nil || !strings.Contains(string(groups), "/npb-") {
			t.Errorf("process %d is in\n%s%v", cmd.Process.Pid, groups, err)
		}
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", all[0].Process.Pid)); err != nil || string(text) != "500\n" {
		t.Errorf("oom_score_adj %q, %v, want 500", text, err)
	}
	if free, err := n.Gauge().Now(); err != nil || free <= 0 || free > 64*mib {
		t.Errorf("%d bytes free, %v, of 64 MiB", free, err)
	}
	if _, err := n.CPU(); err != nil {
		t.Error(err)
	}
	if resident, err := n.MaxResident(); err != nil || resident == 0 {
		t.Errorf("the contestant's resident set is %d, %v", resident, err)
	}
	checkStopped(t, all[0], pod, daemon)
	checkEnlarged(t, n, layout)
	inner := filepath.Join(filepath.Dir(pod.Stat), "of-the-contestant")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	dirs := []string{inner, filepath.Dir(pod.Stat), filepath.Dir(daemon.Stat), n.Directory()}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err == nil {
			t.Errorf("process %d ended by itself", cmd.Process.Pid)
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if err := n.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// checkStopped stops the process of one place.
func checkStopped(t *testing.T, cmd *exec.Cmd, place, other *arena.Place) {
	t.Helper()
	if place.Stopped() || other.Stopped() {
		t.Error("a running process counts as stopped")
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "a stopped process", place.Stopped)
	if other.Stopped() {
		t.Error("a process of another place counts as stopped")
	}
}

// checkEnlarged raises the limit of a node.
func checkEnlarged(t *testing.T, n *arena.Node, l arena.Layout) {
	t.Helper()
	if enlarged, err := n.Enlarged(); err != nil || enlarged {
		t.Errorf("the limit as it was made: enlarged %v, %v", enlarged, err)
	}
	file, none := "memory.max", "max"
	if l.Version == 1 {
		file, none = "memory.limit_in_bytes", "-1"
	}
	for _, limit := range []string{fmt.Sprint(65 * mib), none} {
		if err := os.WriteFile(filepath.Join(n.Directory(), file), []byte(limit), 0); err != nil {
			t.Fatal(err)
		}
		if enlarged, err := n.Enlarged(); err != nil || !enlarged {
			t.Errorf("a limit of %s instead of 64 MiB: enlarged %v, %v", limit, enlarged, err)
		}
	}
}

func TestNew_RefusesLargeNodes(t *testing.T) {
	need(t)
	if n, err := arena.New(arena.Options{Limit: arena.MaxLimit + 1}); err == nil {
		t.Errorf("made a node of more than 2 GiB, closed with %v", n.Close())
	}
}

// makeNode makes a node with a process and a directory, and prints their places.
func makeNode(parent string) error {
	n, err := arena.New(arena.Options{Limit: 64 * mib})
	if err != nil {
		return err
	}
	pod, err := n.AddPod("1", arena.BestEffort, "main", 0)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, arena.DirectoryPrefix)
	if err != nil {
		return err
	}
	if err := n.NoteDirectory(dir); err != nil {
		return err
	}
	cmd := pod.Command(0, "sleep", "600")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(n.Directory(), dir)
	return nil
}

// TestReaper_CleansUp kills the owner of a node.
func TestReaper_CleansUp(t *testing.T) {
	need(t)
	cmd := exec.Command("/proc/self/exe", "make-node", t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	places := strings.Fields(line)
	if killErr := cmd.Process.Kill(); err != nil || killErr != nil || len(places) != 2 {
		t.Fatalf("got %q, %v, %v", line, err, killErr)
	}
	_ = cmd.Wait() // killed
	for _, place := range places {
		await(t, "the end of "+place, func() bool {
			_, err := os.Stat(place)
			return err != nil
		})
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); _, _ = unix.Poll(nil, 2) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func TestReap_RemovesNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := arena.Reap(strings.NewReader("directory " + dir + "\n")); err == nil {
		t.Error("removed a directory that is not of the benchmark")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, arena.DirectoryPrefix+"1")
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := arena.Reap(strings.NewReader("directory " + mine + "\ndone\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("removed a directory although the owner was done")
	}
	if err := arena.Reap(strings.NewReader("directory " + mine + "\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine); err == nil {
		t.Error("the directory is left")
	}
}

func TestOOMScoreAdj(t *testing.T) {
	const node = 1000 * mib
	for _, c := range []struct {
		qos     arena.QoS
		request int64
		want    int
	}{{arena.Guaranteed, 100 * mib, -997}, {arena.BestEffort, 0, 1000}, {arena.Burstable, 0, 999}, {arena.Burstable, 100 * mib, 900}, {arena.Burstable, node, 3}} {
		if got := arena.OOMScoreAdj(c.qos, c.request, node); got != c.want {
			t.Errorf("%s with a request of %d: got %d, want %d", c.qos, c.request, got, c.want)
		}
	}
}
