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

// cheat is a contestant that watches the node and then does what it is named after: args are its name, the
// node's file of usage, its memory, the directory of pods.
func cheat(args []string) {
	total, _ := strconv.ParseInt(args[2], 10, 64)
	node := gauge.Gauge{Usage: args[1], Total: total}
	fmt.Println("watching")
	for range time.Tick(5 * time.Millisecond) {
		free, err := node.Now()
		if err != nil || free > total/6 || args[0] == "does nothing" {
			continue
		}
		if args[0] == "dies" {
			os.Exit(1)
		}
		if args[0] == "enlarges the node" {
			_ = os.WriteFile(filepath.Join(filepath.Dir(args[1]), "memory.max"), []byte("max"), 0)
			_ = os.WriteFile(filepath.Join(filepath.Dir(args[1]), "memory.limit_in_bytes"), []byte("-1"), 0)
			continue
		}
		pods, largest := cheatPods(args[3])
		signal := syscall.SIGKILL
		if args[0] == "stops all" {
			signal = syscall.SIGSTOP
		}
		for pod, pids := range pods {
			if args[0] == "kills the innocent" && pod == largest || args[0] == "kills the largest" && pod != largest {
				continue
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, signal)
			}
		}
		if args[0] == "kills the largest" { // the memory of the first comes back later
			_, _ = unix.Ppoll(nil, nil, nil)
		}
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
settle: 500ms
pods:
  - name: calm
    count: 2
    request: 20%
    processes: [{before: [{grow: 8%}]}]
  - name: hog
    processes: [{before: [{grow: 25%}], steps: [{grow: 300%, at: 10%/s}]}]
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

// runCheat runs the small incident against a cheat.
func runCheat(t *testing.T, incident spec.Incident, name, usage string, seed uint64) *score.Observation {
	t.Helper()
	text := fmt.Sprintf("name: cheat\ntitle: It cheats\narenas: [cgroup]\nsees: [node, pods]\nprograms:\n  - name: cheat\n    ready: {line: ^watching}\n"+
		"    command: [/proc/self/exe, cheat, %q, '{{nodeDirectory}}/%s', '{{total}}', '{{podsDirectory}}']\n", name, usage)
	contestant, err := spec.ParseContestant([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const scratch = "/var/tmp"
	o, err := Run{Incident: incident, Contestant: contestant, Seed: seed, Scratch: scratch}.Do(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	leftNothing(t, scratch)
	return o
}

// TestRun_GivesCheatsWhatTheyDeserve runs the referee on a node of 192 MiB against contestants that cheat. The
// hog needs two seconds from the threshold to the limit, and every contestant looks every 5 ms.
func TestRun_GivesCheatsWhatTheyDeserve(t *testing.T) {
	usage := needNode(t)
	incident, err := spec.ParseIncident([]byte(smallIncident))
	if err != nil {
		t.Fatal(err)
	}
	expect := score.Expect{Exhausts: incident.Expect.Exhausts, MayKill: incident.Expect.MayKill, Needed: incident.Expect.Needed}
	for _, c := range []struct {
		name       string
		verdict    score.Verdict
		kills      bool // by the kernel
		bystanders int  // of the contestant; the kernel may kill more
		right      string
	}{
		{"kills the largest", score.Won, false, 0, "true"},
		{"does nothing", score.Lost, true, 0, "nil"},
		{"kills the innocent", score.Lost, true, 3, "false"},
		{"kills all", score.Wrong, false, 3, "any"},
		{"dies", score.Lost, true, 0, "nil"},
		{"stops all", score.Wrong, false, 3, "nil"},
		{"enlarges the node", score.Wrong, false, 0, "nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			incident := incident
			if c.right == "nil" && !c.kills { // nothing ends, so that the incident lasts to its end
				incident.Duration = 12 * time.Second
			}
			o := runCheat(t, incident, c.name, usage, 1)
			s := score.Of(expect, o)
			right := "nil"
			if s.RightVictim != nil {
				right = fmt.Sprint(*s.RightVictim)
			}
			if s.Verdict != c.verdict || s.KernelKills > 0 != c.kills || len(s.Bystanders) < c.bystanders || !c.kills && len(s.Bystanders) > c.bystanders || right != c.right && c.right != "any" {
				t.Errorf("got %s (%s), right victim %s, %+v\nfrom %+v", s.Verdict, s.Why, right, s, o)
			}
			if o.Contestant.Ended != (c.name == "dies") || o.Crossed == nil || o.Neighbour.Quiet.Requests == 0 || len(o.Slots) == 0 {
				t.Errorf("observed %+v", o)
			}
		})
	}
}

// TestRun_DependsOnSeed runs the small incident three times. What the referee does to the node is equal for
// one seed; the times of what happens are those of the machine, and are not compared.
func TestRun_DependsOnSeed(t *testing.T) {
	usage := needNode(t)
	incident, err := spec.ParseIncident([]byte(strings.Replace(smallIncident, "duration: 40s", "duration: 40s\njitter: 10%", 1)))
	if err != nil {
		t.Fatal(err)
	}
	names := func(o *score.Observation) (all []string) {
		for _, p := range o.Pods {
			all = append(all, p.Name)
		}
		return all
	}
	first, again, other := runCheat(t, incident, "kills the largest", usage, 1), runCheat(t, incident, "kills the largest", usage, 1), runCheat(t, incident, "kills the largest", usage, 2)
	if first.Plan == "" || first.Plan != again.Plan || !slices.Equal(names(first), names(again)) {
		t.Errorf("one seed gave the plans %q with %v and %q with %v", first.Plan, names(first), again.Plan, names(again))
	}
	if other.Plan == first.Plan {
		t.Errorf("two seeds gave the plan %s", first.Plan)
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
		t.Skip(err)
	}
	if err := onDisk("/dev/shm"); err == nil {
		t.Error("accepted a directory in memory")
	}
	if err := onDisk("/no-such-directory"); err == nil {
		t.Error("accepted a directory that does not exist")
	}
}
