package referee

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// readyTimeout bounds the start of a contestant.
const readyTimeout = 4 * time.Minute

// commandTimeout bounds a command before or after the programs.
const commandTimeout = time.Minute

// endTimeout bounds the wait for a process after SIGKILL.
const endTimeout = 30 * time.Second

// Unavailable returns why a contestant can not run here, or "".
func Unavailable(c spec.Contestant, kind string, cgroup int) string {
	if !slices.Contains(c.Arenas, kind) {
		return fmt.Sprintf("it can not watch a node of kind %s, only %s", kind, strings.Join(c.Arenas, ", "))
	}
	for _, n := range c.Needs {
		missing := ""
		switch {
		case n.Cgroup > 0 && n.Cgroup != cgroup:
			missing = fmt.Sprintf("cgroup v%d is missing", n.Cgroup)
		case n.Program != "":
			if _, err := exec.LookPath(n.Program); err != nil {
				missing = n.Program + " is missing"
			}
		case n.File != "":
			if _, err := os.Stat(n.File); err != nil {
				missing = n.File + " is missing"
			}
		}
		if missing != "" {
			return missing + ": " + n.Because
		}
	}
	return ""
}

// Conflict returns why a contestant can not be judged here, or "": a program that would act in its place runs already.
func Conflict(contestants []spec.Contestant) (string, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		comm := strings.TrimSpace(string(text))
		for _, c := range contestants {
			if slices.Contains(c.Conflicts, comm) {
				return fmt.Sprintf("%s runs already, as process %s: stop it", comm, filepath.Base(filepath.Dir(name))), nil
			}
		}
	}
	return "", nil
}

// maxVersion bounds the version of a program.
const maxVersion = 200

// Version returns the first line that the program prints about its version, "" without such a command.
// Returns the error of the command.
func Version(ctx context.Context, c spec.Contestant) (string, error) {
	if len(c.Version) == 0 {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Version[0], c.Version[1:]...)
	cmd.WaitDelay = endTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", c.Name, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), maxVersion)], "?"), nil
}

// Missing returns why an incident can not run here, or "".
func Missing(i spec.Incident) string {
	all := slices.Clone(i.System)
	for _, p := range i.Pods {
		all = append(all, p.Processes...)
	}
	for _, p := range all {
		for _, program := range p.Needs {
			if _, err := exec.LookPath(program); err != nil {
				return "the incident needs " + program + ": install it"
			}
		}
	}
	return ""
}

// contestant is a started contestant.
type contestant struct {
	spec.Contestant
	node     *arena.Node
	values   map[string]string
	programs []*program

	startTime time.Duration // until all programs worked
}

// values returns what the variables of a contestant stand for.
func values(node *arena.Node, dir, manifests string, threshold int64) map[string]string {
	directory := node.Directory()
	if node.Machine {
		directory = "" // the root has no files of the memory controller
	}
	return map[string]string{
		"scratch": dir, "manifests": manifests,
		"total": strconv.FormatInt(node.Total, 10), "threshold": strconv.FormatInt(threshold, 10),
		"thresholdKiB":     strconv.FormatInt(threshold>>10, 10),
		"ceilingKiB":       strconv.FormatInt((node.Total-threshold)>>10, 10),
		"thresholdPercent": strconv.FormatFloat(100*float64(threshold)/float64(node.Total), 'f', 2, 64),
		"node":             node.Path(), "nodeDirectory": directory, "podsDirectory": node.Pods(), "podsPath": node.PodsPath(),
	}
}

// prepare writes the contestant's files and runs its commands, before there are pods.
func (c *contestant) prepare(ctx context.Context) error {
	for _, f := range c.Files {
		if err := os.WriteFile(filepath.Join(c.values["scratch"], f.Name), []byte(spec.Expand(f.Text, c.values)), 0o600); err != nil {
			return err
		}
	}
	return c.commands(ctx, c.Before)
}

func (c *contestant) commands(ctx context.Context, commands [][]string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for _, words := range commands {
		argv := c.expand(words)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.WaitDelay = endTimeout // a child of it may keep its output open
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("contestant %s: %s: %w\n%s", c.Name, strings.Join(argv, " "), err, out)
		}
	}
	return nil
}

func (c *contestant) expand(words []string) []string {
	argv := make([]string, len(words))
	for i, w := range words {
		argv[i] = spec.Expand(w, c.values)
	}
	return argv
}

// start starts the programs in their order, each once the one before works.
func (c *contestant) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	begun := time.Now()
	defer func() { c.startTime = time.Since(begun) }()
	for _, p := range c.Programs {
		started, err := startProgram(c.node.ContestantPlace(), p, c.expand(p.Command), c.values["scratch"])
		if err != nil {
			return fmt.Errorf("contestant %s: start %s: %w", c.Name, p.Name, err)
		}
		c.programs = append(c.programs, started)
		if err := started.await(ctx); err != nil {
			return fmt.Errorf("contestant %s: %s does not work: %w\n%s", c.Name, p.Name, err, started.output.String())
		}
	}
	return nil
}

// ended reports whether a program has ended, and returns the last output of all.
func (c *contestant) ended() (ended bool, output string) {
	for _, p := range c.programs {
		output += p.output.String()
		select {
		case <-p.done:
			ended = true
		default:
		}
	}
	return ended, output
}

// stop stops the programs, the last one first, and runs the commands after them. It is idempotent.
func (c *contestant) stop() error {
	var errs []error
	for _, p := range slices.Backward(c.programs) {
		errs = append(errs, p.stop())
	}
	c.programs = nil
	if c.node != nil {
		errs = append(errs, c.node.EndContestant(), c.commands(context.Background(), c.After))
		c.node = nil
	}
	return errors.Join(errs...)
}

// program is one process of a contestant.
type program struct {
	spec.Program
	cmd    *exec.Cmd
	output *tail
	line   chan struct{} // closed once the line of readiness was written
	done   chan struct{} // closed once it has ended
}

func startProgram(place *arena.Place, s spec.Program, argv []string, dir string) (*program, error) {
	p := &program{Program: s, cmd: place.Command(s.OOMScoreAdj, argv...), output: &tail{}, line: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), "HOME="+dir, "TMPDIR="+dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the referee, which stops it
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := errors.Join(p.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go p.listen(out)
	go func() {
		_ = p.cmd.Wait() // the end is what counts
		close(p.done)
	}()
	return p, nil
}

// cleanEnvironment is what programs and pods get: nothing of the referee's.
func cleanEnvironment() []string { return []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"} }

// listen reads the output, so that the program never waits for the referee.
func (p *program) listen(out io.ReadCloser) {
	defer out.Close()
	found := false
	for lines := bufio.NewReaderSize(out, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		p.output.add(line)
		if !found && matches(p.Ready.Line, line) {
			found = true
			close(p.line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func matches(pattern *regexp.Regexp, line []byte) bool {
	return pattern != nil && pattern.Match(line)
}

// await waits until the program works. Returns an error if it ends before.
func (p *program) await(ctx context.Context) error {
	var after <-chan time.Time
	if p.Ready.Line == nil {
		after = time.After(p.Ready.After)
	}
	select {
	case <-p.line:
		return nil
	case <-after:
		return nil
	case <-p.done:
		return fmt.Errorf("it ended at once: %v", p.cmd.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// names of signals in contestants' files.
var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
}

// stop sends the signal of the file, and SIGKILL when the time of the file is over.
func (p *program) stop() error {
	err := p.cmd.Process.Signal(signals[p.Stop.Signal])
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-p.done:
		return err
	case <-time.After(p.Stop.Within):
	}
	if killErr := p.cmd.Process.Kill(); killErr != nil && !errors.Is(killErr, os.ErrProcessDone) {
		return errors.Join(err, killErr)
	}
	select {
	case <-p.done:
		return err
	case <-time.After(endTimeout):
		return errors.Join(err, fmt.Errorf("process %d of %s has not ended %v after SIGKILL", p.cmd.Process.Pid, p.Name, endTimeout))
	}
}

// tail is the last part of an output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 4 << 10

func (t *tail) add(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "?")
}
