package referee

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
		pods, largest := cheatPods(args[3])
		for pod, pids := range pods {
			if args[0] == "kills the innocent" && pod == largest || args[0] == "kills the largest" && pod != largest {
				continue
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
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

// TestRun_GivesCheatsWhatTheyDeserve runs the referee on a node of 192 MiB against contestants that cheat. The
// hog needs two seconds from the threshold to the limit, and every contestant looks every 5 ms.
func TestRun_GivesCheatsWhatTheyDeserve(t *testing.T) {
	if _, err := arena.Detect(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and no node can be made: %v", err)
		}
		t.Skip(err)
	}
	incident, err := spec.ParseIncident([]byte(smallIncident))
	if err != nil {
		t.Fatal(err)
	}
	expect := score.Expect{Exhausts: incident.Expect.Exhausts, MayKill: incident.Expect.MayKill, Needed: incident.Expect.Needed}
	usage := "memory.usage_in_bytes"
	if l, _ := arena.Detect(); l.Version == 2 {
		usage = "memory.current"
	}
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
	} {
		t.Run(c.name, func(t *testing.T) {
			scratch := "/var/tmp"
			text := fmt.Sprintf("name: cheat\ntitle: It cheats\narenas: [cgroup]\nsees: [node, pods]\nprograms:\n  - name: cheat\n    ready: {line: ^watching}\n"+
				"    command: [/proc/self/exe, cheat, %q, '{{nodeDirectory}}/%s', '{{total}}', '{{podsDirectory}}']\n", c.name, usage)
			contestant, err := spec.ParseContestant([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			o, err := Run{Incident: incident, Contestant: contestant, Seed: 1, Scratch: scratch}.Do(context.Background())
			if err != nil {
				t.Fatal(err)
			}
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
			leftNothing(t, scratch)
		})
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
