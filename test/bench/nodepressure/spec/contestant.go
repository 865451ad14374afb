package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Contestant describes the programs that compete: how to start and stop them, and what they may see.
type Contestant struct {
	Name       string
	Title      string
	Documented string   // where its configuration for this purpose comes from
	Version    []string // command that prints the version
	Arenas     []string // kinds of nodes that it can watch: cgroup, machine
	Names      string   // of the pods' cgroups: cgroupfs or systemd
	Sees       []string // node, pods, manifests
	Phase      time.Duration
	Conflicts  []string // names of processes, as in /proc/PID/comm, that would act in its place
	Needs      []Need
	Files      []File
	Before     [][]string // commands, before the pods exist
	After      [][]string // commands, after the programs have ended
	Programs   []Program  // none: the kernel alone
	Elsewhere  bool       // its processes run outside of its cgroup, so that their cost is unknown
}

// Need is a prerequisite. Exactly one of Program, File and Cgroup is set.
type Need struct {
	Program string // in PATH, or a path
	File    string
	Cgroup  int // version
	Because string
}

// File is written into the directory of the contestant.
type File struct{ Name, Text string }

// Program is one process of a contestant.
type Program struct {
	Name    string
	Command []string
	Ready   Ready
	Stop    Stop
	// OOMScoreAdj is the score that its documentation recommends.
	OOMScoreAdj int
}

// Ready is the condition after which a program works: a line of its output, or a time.
type Ready struct {
	Line  *regexp.Regexp // nil: After
	After time.Duration
}

// Stop ends a program. After Within it is killed.
type Stop struct {
	Signal string
	Within time.Duration
}

// Arenas are the kinds of nodes.
const (
	Cgroup  = "cgroup"  // a cgroup with a limit
	Machine = "machine" // the whole machine, which is expendable
)

// Variables that a contestant can use, by what it sees. An empty key is seen by all.
var variables = map[string][]string{
	"":          {"scratch", "total", "threshold", "thresholdKiB", "thresholdPercent", "ceilingKiB"},
	"node":      {"node", "nodeDirectory"},
	"pods":      {"podsPath", "podsDirectory"},
	"manifests": {"manifests"},
}

// MaxPhase is the maximum period of a contestant's checks. After the expected ends an incident lasts longer than
// that, and equally long for all: a longer course has more seconds among which the worst hundredth is found.
const MaxPhase = 10 * time.Second

// Bounds of a contestant.
const (
	maxPrograms = 4
	maxCommands = 16
	maxWords    = 64
	maxFiles    = 8
)

// signals that can stop a program.
var signals = []string{"TERM", "INT", "HUP", "QUIT", "KILL"}

// ParseContestant parses a contestant. Returns [Faults] for a text that is none.
func ParseContestant(text []byte) (c Contestant, err error) {
	err = read(text, func(f field) { c = f.contestant() })
	return c, err
}

func (f field) contestant() Contestant {
	o := f.object()
	defer o.end()
	c := Contestant{
		Name: o.get("name").name(), Title: o.get("title").sentence(), Documented: o.get("documented").text(),
		Names: "cgroupfs", Phase: o.get("phase").duration(), Elsewhere: o.get("elsewhere").boolean(),
	}
	if c.Phase > MaxPhase {
		o.get("phase").fault("want at most %s: incidents end before a later check", MaxPhase)
	}
	arenas := o.get("arenas")
	for _, a := range arenas.list(2) {
		c.Arenas = append(c.Arenas, a.choice(Cgroup, Machine))
	}
	if arenas.required() && len(c.Arenas) == 0 {
		arenas.fault("empty: use %s, %s", Cgroup, Machine)
	}
	if n := o.get("names"); n.present() {
		c.Names = n.choice("cgroupfs", "systemd")
	}
	for _, s := range o.get("sees").list(len(variables)) {
		c.Sees = append(c.Sees, s.choice("node", "pods", "manifests"))
	}
	for _, p := range o.get("conflicts").list(maxPrograms) {
		c.Conflicts = append(c.Conflicts, p.sentence())
	}
	for _, n := range o.get("needs").list(maxCommands) {
		c.Needs = append(c.Needs, n.need())
	}
	if v := o.get("version"); v.present() {
		c.Version = v.command(nil)
	}
	allowed := c.variables()
	for _, x := range o.get("files").list(maxFiles) {
		c.Files = append(c.Files, x.file(allowed))
	}
	c.Before, c.After = o.get("before").commands(allowed), o.get("after").commands(allowed)
	for _, p := range o.get("programs").list(maxPrograms) {
		c.Programs = append(c.Programs, p.program(allowed))
	}
	return c
}

func (c *Contestant) variables() []string {
	allowed := slices.Clone(variables[""])
	for _, s := range c.Sees {
		allowed = append(allowed, variables[s]...)
	}
	return allowed
}

func (f field) need() Need {
	o := f.object()
	defer o.end()
	program, file, cgroup := o.get("program"), o.get("file"), o.get("cgroup")
	n := Need{Program: program.text(), File: file.text(), Because: o.get("because").sentence()}
	if cgroup.present() {
		n.Cgroup = cgroup.number(1, 2)
	}
	kinds := 0
	for _, kind := range []field{program, file, cgroup} {
		if kind.present() {
			kinds++
		}
	}
	if kinds != 1 {
		f.fault("want exactly one of program, file and cgroup")
	}
	return n
}

func (f field) file(allowed []string) File {
	o := f.object()
	defer o.end()
	name := o.get("name")
	x := File{Name: name.sentence()}
	if !fileNaming.MatchString(x.Name) {
		name.fault("want the name of a file without a directory")
	}
	text := o.get("text")
	text.required()
	x.Text = text.bounded(maxLongText)
	if err := checkVariables(x.Text, allowed); err != nil {
		text.fault("%v", err)
	}
	return x
}

var fileNaming = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

func (f field) commands(allowed []string) (all [][]string) {
	for _, c := range f.list(maxCommands) {
		all = append(all, c.command(allowed))
	}
	return all
}

func (f field) command(allowed []string) []string {
	words := f.texts(maxWords)
	if f.required() && (len(words) == 0 || words[0] == "") {
		f.fault("want a program and its arguments")
	}
	for i, w := range words {
		if err := checkVariables(w, allowed); err != nil {
			f.fault("argument %d: %v", i, err)
		}
	}
	return words
}

func (f field) program(allowed []string) Program {
	o := f.object()
	defer o.end()
	p := Program{
		Name: o.get("name").name(), Command: o.get("command").command(allowed), OOMScoreAdj: o.get("oomScoreAdj").number(-1000, 1000),
		Stop: Stop{Signal: "TERM", Within: 10 * time.Second},
	}
	ready := o.get("ready")
	if ready.required() {
		p.Ready = ready.ready()
	}
	if s := o.get("stop"); s.present() {
		x := s.object()
		if w := x.get("signal"); w.present() {
			p.Stop.Signal = w.choice(signals...)
		}
		if w := x.get("within"); w.present() {
			p.Stop.Within = w.duration()
		}
		x.end()
	}
	return p
}

func (f field) ready() (r Ready) {
	o := f.object()
	defer o.end()
	line, after := o.get("line"), o.get("after")
	if line.present() == after.present() {
		f.fault("want either line or after")
	}
	r.After = after.duration()
	if line.present() {
		pattern, err := regexp.Compile(line.text())
		if err != nil {
			line.fault("%v", err)
		}
		r.Line = pattern
	}
	return r
}

// variable matches a variable in a text.
var variable = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

func checkVariables(text string, allowed []string) error {
	for _, found := range variable.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(allowed, found[1]) {
			return fmt.Errorf("{{%s}} is not available: use %s, or add what it shows to sees", shorten(found[1]), strings.Join(allowed, ", "))
		}
	}
	return nil
}

// Expand replaces the variables of a text. One without a value stays as it is; the parser has refused
// those.
func Expand(text string, values map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if value, known := values[found[2:len(found)-2]]; known {
			return value
		}
		return found
	})
}
