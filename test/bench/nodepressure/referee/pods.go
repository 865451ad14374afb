package referee

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/watch"
)

// instance is a pod or daemon with its processes.
type instance struct {
	id        int
	name      string // in results
	group     string
	uid       string // empty for a daemon
	daemon    bool
	pod       *spec.Pod // nil for a daemon
	left      int       // replacements
	manifest  string    // file; empty for a daemon
	place     *arena.Place
	lost      string // file with the times of killed children
	processes []*process
}

// process is a started process.
type process struct {
	cmd   *exec.Cmd
	ready string
	log   string
	done  chan struct{}
}

// death is sent when the last process of an instance has ended.
type death struct{ of *instance }

// crew makes instances. One goroutine owns it.
type crew struct {
	*plan
	node      *arena.Node
	dir       string // for files of the referee
	scratch   string // on a disk
	manifests string
	gate      string
	deaths    chan death
	made      []*instance
}

// addPod makes a pod with its manifest, and starts its processes.
func (c *crew) addPod(pod *spec.Pod, name string, programs []hog.Program, replacements int) (*instance, error) {
	id, dice := len(c.made), c.dice("names of "+name)
	uid, container := newUID(dice), fmt.Sprintf("%016x", dice.Uint64())
	class := c.qos(pod)
	place, err := c.node.AddPod(uid, class, container, pod.Limit.Of(c.total))
	if err != nil {
		return nil, err
	}
	x := &instance{id: id, name: name, group: pod.Name, uid: uid, pod: pod, left: replacements, place: place}
	// Names reveal nothing about the part that a pod plays.
	known := fmt.Sprintf("pod-%d", id+1)
	text, err := manifest(known, uid, pod, class, c.total)
	if err != nil {
		return nil, err
	}
	x.manifest = filepath.Join(c.manifests, known+".json")
	if err := os.WriteFile(x.manifest, text, 0o600); err != nil {
		return nil, err
	}
	return x, c.start(x, arena.OOMScoreAdj(class, pod.Request.Of(c.total), c.total), programs)
}

// daemonScore is the oom_score_adj of a node's important daemons.
const daemonScore = -999

// daemonName is the name of the daemons of an incident in results.
const daemonName = "daemon"

// addDaemon starts processes outside of all pods.
func (c *crew) addDaemon(name string, programs []hog.Program) (*instance, error) {
	place, err := c.node.AddService(name)
	if err != nil {
		return nil, err
	}
	x := &instance{id: len(c.made), name: name, group: name, daemon: true, place: place}
	return x, c.start(x, daemonScore, programs)
}

// newUID returns a UID of a pod.
func newUID(dice *rand.Rand) string {
	a, b := dice.Uint64(), dice.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// start starts the processes of an instance, and remembers it also if one fails.
func (c *crew) start(x *instance, oomScoreAdj int, programs []hog.Program) error {
	c.made = append(c.made, x)
	x.lost = c.file(x.id, "lost")
	var all sync.WaitGroup
	for i, program := range programs {
		p := &process{ready: c.file(x.id, fmt.Sprintf("%d.ready", i)), log: filepath.Join(c.scratch, fmt.Sprintf("%d.%d.log", x.id, i)), done: make(chan struct{})}
		if err := c.startProcess(x, p, oomScoreAdj, program, fmt.Sprintf("%d.json", i)); err != nil {
			return fmt.Errorf("start a process of %s: %w", x.name, err)
		}
		x.processes = append(x.processes, p)
		all.Go(func() {
			_ = p.cmd.Wait() // the state contains the result
			close(p.done)
		})
	}
	go func() {
		all.Wait()
		c.deaths <- death{x}
	}()
	return nil
}

func (c *crew) startProcess(x *instance, p *process, oomScoreAdj int, program hog.Program, file string) error {
	program.Gate, program.Ready, program.Lost = c.gate, p.ready, x.lost
	program.Scratch = filepath.Join(c.scratch, fmt.Sprint(x.id))
	if err := os.MkdirAll(program.Scratch, 0o700); err != nil {
		return err
	}
	program.Exec = slices.Clone(program.Exec)
	for i, word := range program.Exec {
		program.Exec[i] = spec.Expand(word, map[string]string{"scratch": program.Scratch})
	}
	text, err := json.Marshal(program)
	if err != nil {
		return err
	}
	name := c.file(x.id, file)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return err
	}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = x.place.Command(oomScoreAdj, "/proc/self/exe", "hog", name)
	p.cmd.Env = append(cleanEnvironment(), "HOME="+program.Scratch, "TMPDIR="+program.Scratch)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p.cmd.Start()
}

func (c *crew) file(id int, name string) string {
	return filepath.Join(c.dir, fmt.Sprintf("%d.%s", id, name))
}

// await waits until every process is ready. Returns an error with its log if one ends before.
func (c *crew) await(ctx context.Context, instances ...*instance) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, x := range instances {
		for _, p := range x.processes {
			for !exists(p.ready) {
				select {
				case <-p.done:
					log, _ := os.ReadFile(p.log)
					return fmt.Errorf("a process of %s ended before the incident: %v: %s", x.name, p.cmd.ProcessState, log)
				case <-ctx.Done():
					return fmt.Errorf("wait for %s: %w", x.name, ctx.Err())
				case <-tick.C:
				}
			}
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// watched returns an instance for the witness.
func (x *instance) watched() *watch.Pod {
	p := &watch.Pod{ID: x.id, Stat: x.place.Stat, Events: x.place.Events}
	for _, one := range x.processes {
		p.PIDs = append(p.PIDs, one.cmd.Process.Pid)
	}
	return p
}

// replace makes the successor of an instance.
func (c *crew) replace(x *instance) (*instance, error) {
	made := x.pod.Replace.Times - x.left + 1
	name, _, _ := strings.Cut(x.name, "+")
	name = fmt.Sprintf("%s+%d", name, made)
	return c.addPod(x.pod, name, c.programs(name, x.pod.Processes), x.left-1)
}
