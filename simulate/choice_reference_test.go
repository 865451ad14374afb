package simulate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/simulate"
)

// The reference model of a step with evictionChoice: from the text of the contract, over the file that
// a user would write. It shares no code with the program: its fractions are exact, its lists are
// maps.

var choicesFlag = flag.Uint64("choices", 3_000, "number of random nodes with a choice")

type (
	object = map[string]any
	list   = []any
)

// choiceCase is a random node with one threshold.
type choiceCase struct {
	signal, layout, choice string
	value, reclaim         choiceValue
	soft                   bool
	keep                   bool
	pods                   []choicePod
	steps                  []choiceStep
}

// choiceValue is a quantity, or a percentage.
type choiceValue struct {
	amount  int64
	percent int
}

func (v choiceValue) of(capacity int64) int64 {
	if v.percent > 0 {
		return int64(float64(capacity) * float64(float32(v.percent)/100))
	}
	return v.amount
}

func (v choiceValue) String() string {
	if v.percent > 0 {
		return fmt.Sprintf("%d%%", v.percent)
	}
	return fmt.Sprint(v.amount)
}

type choicePod struct {
	name           string
	priority       int64
	own            int64 // eviction priority
	last           bool
	protected      string // the reason
	memory, layers int64  // requests
}

type choiceStep struct {
	available, capacity int64
	after               int64 // -1: none given
	restart, fails      bool
	usage               map[string]choiceUsage
}

// choiceUsage is the usage of a pod by place: memory, processes, rootfs, logs, volumes.
type choiceUsage map[string]int64

// choicePlaces lists the places of a filesystem in a layout.
var choicePlaces = map[string]map[string]string{
	"single":    {"nodefs": "rootfs logs volumes", "imagefs": "rootfs logs volumes", "containerfs": "rootfs logs volumes"},
	"dedicated": {"nodefs": "logs volumes", "imagefs": "rootfs", "containerfs": "rootfs"},
	"split":     {"nodefs": "rootfs logs volumes", "imagefs": "", "containerfs": "rootfs logs volumes"},
}

// choiceGarbage lists what is collected first.
var choiceGarbage = map[string]map[string]string{
	"single":    {"nodefs": "containers images", "imagefs": "containers images", "containerfs": "containers images"},
	"dedicated": {"imagefs": "containers images", "containerfs": "containers images"},
	"split":     {"nodefs": "containers", "imagefs": "images", "containerfs": "containers"},
}

func (c *choiceCase) filesystem() string {
	fs, _, _ := strings.Cut(c.signal, ".")
	return fs
}

func (c *choiceCase) ofDisk() bool {
	return strings.HasSuffix(c.filesystem(), "fs")
}

func (c *choiceCase) places() []string {
	switch {
	case c.ofDisk():
		return strings.Fields(choicePlaces[c.layout][c.filesystem()])
	case c.signal == "pid.available":
		return []string{"processes"}
	}
	return []string{"memory"}
}

// relief returns what the ranking counts of a pod.
func (c *choiceCase) relief(u choiceUsage) (sum int64) {
	for _, place := range c.places() {
		sum += u[place]
	}
	return sum
}

// floor returns the smallest amount that helps with any larger shortage.
func (c *choiceCase) floor() int64 {
	if strings.HasSuffix(c.signal, "inodesFree") || c.signal == "pid.available" {
		return 1
	}
	return 1 << 20
}

// helps compares exact fractions.
func (c *choiceCase) helps(relief, shortage int64) bool {
	r, s := new(big.Rat).SetInt64(relief), new(big.Rat).SetInt64(shortage)
	part := new(big.Rat).Quo(s, big.NewRat(20, 1))
	if floor := new(big.Rat).SetInt64(c.floor()); part.Cmp(floor) < 0 {
		part = floor
	}
	if s.Cmp(part) < 0 {
		part = s
	}
	return r.Cmp(part) >= 0
}

// before reports whether pod a is ranked before pod b.
func (c *choiceCase) before(a, b choicePod, usage map[string]choiceUsage) bool {
	ua, seenA := usage["default/"+a.name]
	ub, seenB := usage["default/"+b.name]
	type key struct{ a, b int64 } // the lower first
	flag := func(first bool) int64 { return map[bool]int64{true: 0, false: 1}[first] }
	request := func(p choicePod) int64 {
		switch {
		case strings.HasSuffix(strings.ToLower(c.signal), "memory.available"):
			return p.memory
		case strings.HasSuffix(c.signal, "fs.available"):
			return p.layers
		}
		return 0
	}
	over := func(p choicePod, u choiceUsage, seen bool) int64 {
		if !seen {
			return 0
		}
		return c.relief(u) - request(p)
	}
	last := key{flag(!a.last), flag(!b.last)}
	priority, own := key{a.priority, b.priority}, key{a.own, b.own}
	unseen := key{flag(!seenA), flag(!seenB)}
	exceeds := key{flag(over(a, ua, seenA) > 0), flag(over(b, ub, seenB) > 0)}
	more := key{-over(a, ua, seenA), -over(b, ub, seenB)}
	keys := []key{last, unseen, exceeds, priority, own, more}
	if c.signal == "pid.available" {
		keys = []key{last, priority, own, unseen, more}
	}
	for _, k := range keys {
		if k.a != k.b {
			return k.a < k.b
		}
	}
	return "default/"+a.name < "default/"+b.name // its UID
}

// choiceLine is the part of an output line that the model predicts.
type choiceLine struct {
	Signal  string
	Ranking []string
	Evicted string
	Failed  []string
}

// expect returns the lines of the case.
func (c *choiceCase) expect() (lines []choiceLine) {
	pods := slices.Clone(c.pods)
	met, past := -1, false // the step since which the threshold is met; its grace passed
	for i, s := range c.steps {
		line := choiceLine{Ranking: []string{}, Failed: []string{}}
		threshold, reclaim := c.value.of(s.capacity), c.reclaim.of(s.capacity)
		if s.available >= threshold && !(past && s.available < threshold+reclaim) {
			met, past = -1, false
			lines = append(lines, line)
			continue
		}
		if met < 0 {
			met = i
		}
		if past = !c.soft || i > met; !past {
			lines = append(lines, line)
			continue
		}
		line.Signal = c.signal
		available := s.available
		if c.ofDisk() && choiceGarbage[c.layout][c.filesystem()] != "" && s.after >= 0 {
			available = s.after
		}
		if shortage := threshold + reclaim - available; shortage > 0 {
			line.Ranking, line.Evicted, line.Failed = c.choose(pods, s, shortage)
		}
		if line.Evicted != "" && !c.keep {
			pods = slices.DeleteFunc(pods, func(p choicePod) bool { return "default/"+p.name == line.Evicted })
		}
		lines = append(lines, line)
	}
	return lines
}

// choose ranks the pods and chooses one.
func (c *choiceCase) choose(pods []choicePod, s choiceStep, shortage int64) (order []string, evicted string, failed []string) {
	order, failed = []string{}, []string{}
	rest, together := slices.Clone(pods), new(big.Int)
	for _, p := range pods {
		if p.protected == "" {
			together.Add(together, big.NewInt(c.relief(s.usage["default/"+p.name])))
		}
	}
	none := c.choice == "helps" && c.ofDisk() && together.Cmp(big.NewInt(shortage)) < 0
	for len(rest) > 0 {
		first := 0
		for i := range rest {
			if c.before(rest[i], rest[first], s.usage) {
				first = i
			}
		}
		p := rest[first]
		name := "default/" + p.name
		order = append(order, name)
		rest = slices.Delete(rest, first, first+1)
		switch {
		case evicted != "" || p.protected != "" || none:
		case c.choice == "helps" && !c.helps(c.relief(s.usage[name]), shortage):
		case s.fails:
			failed = append(failed, name)
		default:
			evicted = name
		}
	}
	return order, evicted, failed
}

// configured returns the signal with the configured threshold.
func (c *choiceCase) configured() string {
	switch fs, rest, _ := strings.Cut(c.signal, "."); {
	case fs == "allocatableMemory":
		return "memory.available"
	case fs == "containerfs" && c.layout == "dedicated":
		return "imagefs." + rest
	case fs == "containerfs":
		return "nodefs." + rest
	}
	return c.signal
}

// file returns the case as a scenario file.
func (c *choiceCase) file() []byte {
	signal := c.configured()
	config := object{"evictionHard": object{signal: c.value.String()}, "evictionPolicyNamespaces": list{"*"}, "enforceNodeAllocatable": list{}}
	if c.soft {
		config["evictionHard"], config["evictionSoft"] = object{}, object{signal: c.value.String()}
		config["evictionSoftGracePeriod"] = object{signal: "10s"}
	}
	if c.reclaim != (choiceValue{}) {
		config["evictionMinimumReclaim"] = object{signal: c.reclaim.String()}
	}
	if c.signal == "allocatableMemory.available" {
		config["enforceNodeAllocatable"] = list{"pods"}
	}
	if c.choice != "" {
		config["evictionChoice"] = c.choice
	}
	var pods, steps list
	for _, p := range c.pods {
		pods = append(pods, p.object())
	}
	for i, s := range c.steps {
		node := object{signal: object{"available": int64(1) << 50, "capacity": s.capacity}, c.signal: object{"available": s.available, "capacity": s.capacity}}
		step := object{"at": fmt.Sprintf("%ds", i*10), "node": node, "restart": s.restart, "usage": object{}}
		if s.after >= 0 {
			step["afterReclaim"] = object{c.signal: object{"available": s.after, "capacity": s.capacity}}
		}
		if s.fails {
			step["killError"] = "stuck"
		}
		for name, u := range s.usage {
			step["usage"].(object)[name] = c.measured(u)
		}
		steps = append(steps, step)
	}
	data, err := json.Marshal(object{"apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeScenario", "config": config,
		"filesystems": c.layout, "keepEvicted": c.keep, "pods": pods, "steps": steps})
	if err != nil {
		panic(err)
	}
	return data
}

func (p *choicePod) object() object {
	annotations := object{}
	switch p.protected {
	case "static":
		annotations["kubernetes.io/config.source"] = "file"
	case "mirror":
		annotations["kubernetes.io/config.mirror"] = "x"
	case "opted out":
		annotations["plimsoll.dev/eviction-policy"] = "never"
	}
	if p.last {
		annotations["plimsoll.dev/eviction-policy"] = "last"
	}
	if p.own != 0 {
		annotations["plimsoll.dev/eviction-priority"] = fmt.Sprint(p.own)
	}
	return object{"metadata": object{"name": p.name, "annotations": annotations},
		"spec": object{"priority": p.priority, "volumes": list{object{"name": "v", "emptyDir": object{}}},
			"containers": list{object{"name": "c", "resources": object{"requests": object{"memory": fmt.Sprint(p.memory), "ephemeral-storage": fmt.Sprint(p.layers)}}}}}}
}

func (c *choiceCase) measured(u choiceUsage) object {
	kind := "bytes"
	if strings.HasSuffix(c.signal, "inodesFree") {
		kind = "inodes"
	}
	return object{"memory": u["memory"], "processes": u["processes"],
		"containers": object{"c": object{"rootfs": object{kind: u["rootfs"]}, "logs": object{kind: u["logs"]}}},
		"volumes":    object{"v": object{kind: u["volumes"]}}}
}

var choiceSignals = []string{"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree",
	"imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomChoiceCase(r *rand.Rand) *choiceCase {
	c := &choiceCase{signal: oneOf(r, choiceSignals...), layout: oneOf(r, "single", "dedicated", "split"), choice: oneOf(r, "helps", "helps", "helps", "kubelet", ""),
		keep: r.IntN(2) == 0}
	c.soft = c.signal != "allocatableMemory.available" && r.IntN(4) == 0 // bound by hard thresholds only
	unit := c.floor()
	c.value.amount = unit*r.Int64N(60) + oneOf[int64](r, 1, 20, 21) + r.Int64N(unit)
	if r.IntN(3) == 0 {
		c.value.percent = 1 + r.IntN(30)
	}
	switch r.IntN(3) {
	case 0:
		c.reclaim.amount = unit*r.Int64N(40) + r.Int64N(20)
	case 1:
		c.reclaim.percent = 1 + r.IntN(20)
	}
	for i := range r.IntN(7) {
		p := choicePod{name: fmt.Sprintf("p%d", i), priority: oneOf[int64](r, -1, 0, 0, 5), memory: oneOf(r, 0, 0, unit, 30*unit), layers: oneOf(r, 0, 0, unit, 30*unit)}
		switch r.IntN(6) {
		case 0:
			p.protected = oneOf(r, "static", "mirror", "critical", "opted out")
			if p.protected == "critical" {
				p.priority = 2_000_000_000
			}
		case 1:
			p.last, p.own = r.IntN(2) == 0, oneOf[int64](r, -5, 0, 7)
		}
		c.pods = append(c.pods, p)
	}
	for range 1 + r.IntN(4) {
		c.steps = append(c.steps, c.randomStep(r))
	}
	return c
}

func (c *choiceCase) randomStep(r *rand.Rand) choiceStep {
	unit := c.floor()
	s := choiceStep{capacity: unit*(50+r.Int64N(500)) + r.Int64N(7), after: -1, restart: r.IntN(6) == 0, fails: r.IntN(6) == 0, usage: map[string]choiceUsage{}}
	threshold := c.value.of(s.capacity)
	line := threshold + c.reclaim.of(s.capacity)
	amount := func() int64 {
		return max(0, oneOf(r, 0, threshold-1, threshold, line-1, line, r.Int64N(line+2), r.Int64N(threshold+1)))
	}
	s.available = amount()
	shortage := line - s.available
	if c.ofDisk() && r.IntN(3) == 0 {
		s.after = amount()
		shortage = line - s.after
	}
	for _, p := range c.pods {
		if r.IntN(6) == 0 {
			continue
		}
		u := choiceUsage{}
		for _, place := range []string{"memory", "processes", "rootfs", "logs", "volumes"} {
			if !slices.Contains(c.places(), place) || r.IntN(4) == 0 {
				u[place] = r.Int64N(100 * unit) // noise, or any amount
			}
		}
		if places := c.places(); len(places) > 0 && r.IntN(4) > 0 { // at a boundary
			part := (max(shortage, 0) + 19) / 20
			for _, place := range places {
				u[place] = 0
			}
			u[oneOf(r, places...)] = max(0, oneOf(r, 0, 1, unit-1, unit, part-1, part, part+1, shortage/20, shortage-1, shortage, shortage/2, shortage/3, shortage/int64(len(c.pods))))
		}
		s.usage["default/"+p.name] = u
	}
	return s
}

func TestRun_ChoiceEqualsReferenceModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	seen := map[string]int{}
	for n := range *choicesFlag {
		c := randomChoiceCase(rand.New(rand.NewPCG(seed, n)))
		file := c.file()
		s, faults := simulate.Parse(file)
		if err := faults.Err(); err != nil {
			t.Fatalf("seed %d, case %d: %v\n%s", seed, n, err, file)
		}
		var out bytes.Buffer
		if err := s.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		want := c.expect()
		for i, d := 0, json.NewDecoder(&out); i < len(want); i++ {
			var l simulate.Line
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			got := choiceLine{Signal: l.Signal, Ranking: l.Ranking, Failed: []string{}}
			for _, f := range l.Failed {
				got.Failed = append(got.Failed, f.Pod)
			}
			if l.Evicted != nil {
				got.Evicted = l.Evicted.Pod
			}
			if fmt.Sprint(got) != fmt.Sprint(want[i]) {
				t.Fatalf("seed %d, case %d, step %d: got\n%+v\nwant\n%+v\n%s", seed, n, i, got, want[i], file)
			}
			c.count(seen, want[i])
		}
	}
	for _, signal := range choiceSignals {
		for _, what := range []string{"first", "behind others", "none"} {
			if n := seen[signal+" "+what]; n < 3 {
				t.Errorf("%s: %q happened %d times, want at least 3", signal, what, n)
			}
		}
	}
}

// count counts what a line shows of the choice helps.
func (c *choiceCase) count(seen map[string]int, l choiceLine) {
	eligible := slices.DeleteFunc(slices.Clone(l.Ranking), func(name string) bool {
		return slices.ContainsFunc(c.pods, func(p choicePod) bool { return "default/"+p.name == name && p.protected != "" })
	})
	switch {
	case c.choice != "helps" || len(eligible) == 0 || len(l.Failed) > 0:
	case l.Evicted == "":
		seen[c.signal+" none"]++
	case l.Evicted == eligible[0]:
		seen[c.signal+" first"]++
	default:
		seen[c.signal+" behind others"]++
	}
}
