package referee

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/role"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

func TestMain(m *testing.M) {
	role.RunIfAsked()
	if len(os.Args) > 1 && os.Args[1] == "cheat" {
		cheat(os.Args[2:])
	}
	os.Exit(m.Run())
}

// cheat is a contestant that watches the node and does what it is named after, a while after memory became
// scarce: args are its name, the node's file of usage, its memory, the directory of pods.
func cheat(args []string) {
	total, _ := strconv.ParseInt(args[2], 10, 64)
	node := gauge.Gauge{Usage: args[1], Total: total}
	fmt.Println("watching")
	for free := total; free > total/6; _, _ = unix.Poll(nil, 5) {
		if now, err := node.Now(); err == nil {
			free = now
		}
	}
	if args[0] == "dies" {
		os.Exit(1)
	}
	<-time.After(3 * time.Second) // the witness sees it even if the machine stands still meanwhile
	cheatOn(args[0], args[3])
	if args[0] == "breaks every rule" {
		_ = os.WriteFile(filepath.Join(filepath.Dir(args[1]), "memory.max"), []byte("max"), 0)
		_ = os.WriteFile(filepath.Join(filepath.Dir(args[1]), "memory.limit_in_bytes"), []byte("-1"), 0)
	}
	for {
		_, _ = unix.Ppoll(nil, nil, nil) // until a signal of the referee
	}
}

// cheatOn sends signals to pods: the right one gets SIGKILL, and what others get depends on the cheat.
func cheatOn(name, dir string) {
	pods, largest := cheatPods(dir)
	others := map[string]syscall.Signal{"kills the largest": 0, "kills all": syscall.SIGKILL, "breaks every rule": syscall.SIGSTOP}[name]
	for pod, pids := range pods {
		for _, pid := range pids {
			if pod != largest && others != 0 {
				_ = syscall.Kill(pid, others)
			}
		}
	}
	if name == "kills all" {
		<-time.After(time.Second) // so that the others' ends are the first ones
	}
	for _, pid := range pods[largest] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// cheatPods returns the processes of pods, and the pod with the largest process.
func cheatPods(dir string) (pods map[string][]int, largest string) {
	pods = map[string][]int{}
	most := int64(0)
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil
		}
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			pods[filepath.Dir(path)] = append(pods[filepath.Dir(path)], pid)
			var virtual, resident int64
			statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
			_, _ = fmt.Sscan(string(statm), &virtual, &resident)
			if resident > most {
				most, largest = resident, filepath.Dir(path)
			}
		}
		return nil
	})
	return pods, largest
}

const smallIncident = `name: small
title: A hog fills a small node
reenacts: [{what: test, reference: test}]
node: 192MiB
threshold: 20%
duration: 40s
settle: 5s
pods:
  - name: calm
    count: 2
    request: 20%
    processes: [{before: [{grow: 8%}]}]
  - name: hog
    processes: [{before: [{grow: 40%}], steps: [{grow: 300%, at: 10%/s}]}]
expect: {exhausts: true, mayKill: [hog], needed: 1, cause: test}
`

// needNode skips the test where no node can be made, and fails it with CI=true. It returns the name of the
// file with the node's usage.
func needNode(t *testing.T) string {
	t.Helper()
	l, err := arena.Detect()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and no node can be made: %v", err)
		}
		t.Skip(err)
	}
	if l.Version == 2 {
		return "memory.current"
	}
	return "memory.usage_in_bytes"
}

// runCheat runs an incident against a cheat.
func runCheat(t *testing.T, incident spec.Incident, name, usage string) *score.Observation {
	t.Helper()
	text := fmt.Sprintf("name: cheat\ntitle: It cheats\narenas: [cgroup]\nsees: [node, pods]\nprograms:\n  - name: cheat\n    ready: {line: ^watching}\n"+
		"    command: [/proc/self/exe, cheat, %q, '{{nodeDirectory}}/%s', '{{total}}', '{{podsDirectory}}']\n", name, usage)
	contestant, err := spec.ParseContestant([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const scratch = "/var/tmp"
	o, err := Run{Incident: incident, Contestant: contestant, Seed: 1, Scratch: scratch}.Do(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	leftNothing(t, scratch)
	return o
}

// TestRun_ObservesWhatHappens runs the referee on a node of 192 MiB, once for each thing that only a kernel shows:
// kills by the contestant, a kill by the kernel with a contestant that ended, stopped pods and a raised limit. Package
// score judges all other cases from observations. Memory fills up to a rest that stays until the contestant
// acts, so that nothing depends on how fast it is; only for the kernel's kill it fills completely.
func TestRun_ObservesWhatHappens(t *testing.T) {
	usage := needNode(t)
	plans := map[string]bool{}
	for _, c := range []struct {
		name, grow string
		verdict    score.Verdict
		right      bool
		bystanders int
	}{
		{"kills the largest", "all but 12%", score.Won, true, 0},
		{"kills all", "all but 12%", score.Wrong, false, 3},
		{"dies", "300%", score.Lost, false, 0},
		{"breaks every rule", "all but 12%", score.Wrong, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			incident, err := spec.ParseIncident([]byte(strings.Replace(smallIncident, "300%", c.grow, 1)))
			if err != nil {
				t.Fatal(err)
			}
			o := runCheat(t, incident, c.name, usage)
			answered := slices.ContainsFunc(o.Neighbour.Slots, func(share float64) bool { return share > 0 })
			// The machine may be slow, or have stood still; package score judges that.
			o.Witness.MaxGap, o.Heartbeat.MaxGap, o.Neighbour = 0, 0, score.Neighbour{Quiet: score.Latency{Requests: 1}}
			s := score.Of(score.Expect{Exhausts: true, MayKill: incident.Expect.MayKill, Needed: 1}, o)
			kernel := c.verdict == score.Lost // which may kill more than the hog
			if s.Verdict != c.verdict || s.KernelKills > 0 != kernel || !kernel && len(s.Bystanders) != c.bystanders ||
				(s.RightVictim != nil && *s.RightVictim) != c.right || o.Enlarged != (c.name == "breaks every rule") {
				t.Errorf("got %s (%s), %+v\nfrom %+v", s.Verdict, s.Why, s, o)
			}
			if o.Contestant.Ended != (c.name == "dies") || o.Crossed == nil || !answered || len(o.Slots) == 0 {
				t.Errorf("observed %+v", o)
			}
			if c.grow != "300%" {
				plans[o.Plan] = true
			}
			i := slices.IndexFunc(o.Pods, func(p score.Pod) bool { return p.Name == "hog" })
			if want := newUID(newPlan(incident, gauge.Gauge{}, 1, 0).dice("names of hog")); i < 0 || o.Pods[i].UID != want {
				t.Errorf("the hog is not that of the seed, with the UID %s: %+v", want, o.Pods)
			}
		})
	}
	if len(plans) > 1 || plans[""] {
		t.Errorf("one seed gave two contestants the plans %v", plans)
	}
}

// leftNothing looks for cgroups and directories of this process.
func leftNothing(t *testing.T, scratch string) {
	t.Helper()
	mine := fmt.Sprintf("-%d-*", os.Getpid())
	for _, pattern := range []string{"/sys/fs/cgroup/npb-*", "/sys/fs/cgroup/*/npb-*", scratch + "/node-pressure-bench", inMemory() + "/node-pressure-bench"} {
		if found, err := filepath.Glob(pattern + mine); err != nil || len(found) > 0 {
			t.Errorf("%v are left, %v", found, err)
		}
	}
}

func TestRun_RefusesScratchInMemory(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and there is no directory in memory: %v", err)
		}
		t.Skip(err)
	}
	if err := onDisk("/dev/shm"); err == nil {
		t.Error("accepted a directory in memory")
	}
	if err := onDisk("/no-such-directory"); err == nil {
		t.Error("accepted a directory that does not exist")
	}
}
