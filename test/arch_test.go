package test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport is the architecture: which of our packages a package may import,
// and why these. docs/design.md draws it. Files ending in _test.go are free,
// except that nothing a core package's tests need makes it less pure.
var mayImport = map[string]struct {
	ours []string
	why  string
}{
	// The functional core.
	"signal":    {nil, "it is the vocabulary: everybody speaks it, it speaks of nobody"},
	"eviction":  {[]string{"signal"}, "decisions are values made of signals; who ranks, kills or reports is not their business"},
	"ranking":   {[]string{"signal"}, "an order is made of pods and what they use; what it is for is decided elsewhere"},
	"restraint": {[]string{"signal"}, "it says who is spared by what evictions have led to; who would be evicted is decided elsewhere"},
	"arming":    {nil, "whether an agent may act follows from words; who listens, and what follows, is decided elsewhere"},

	// The cluster's side of it: cores that are strangers to each other, and what
	// puts them together.
	"lifecycle/facts":     {nil, "it is the vocabulary of the cluster's side"},
	"lifecycle/deadline":  {nil, "it keeps moments in order, whatever they are about"},
	"lifecycle/agents":    {[]string{"lifecycle/deadline", "lifecycle/facts"}, "it says what agents ask for and leave behind; who does it is decided elsewhere"},
	"lifecycle/evidence":  {[]string{"lifecycle/deadline"}, "it says whether silence is believed; who is silent, and what follows, is decided elsewhere"},
	"lifecycle/health":    {[]string{"lifecycle/deadline", "lifecycle/facts"}, "it says who is silent; whether that is believed is decided elsewhere"},
	"lifecycle/evictions": {[]string{"lifecycle/deadline", "lifecycle/facts"}, "when a pod has to go follows from taints and tolerations; who sends it away is decided elsewhere"},
	"lifecycle/fleet":     {[]string{"lifecycle/agents", "lifecycle/deadline", "lifecycle/evictions", "lifecycle/evidence", "lifecycle/facts", "lifecycle/health", "lifecycle/remains", "lifecycle/taints", "lifecycle/zones"}, "it puts the cores of the cluster's side together; what is asked of the API server, and when it answers, is not its business"},
	"lifecycle/remains":   {[]string{"lifecycle/deadline", "lifecycle/facts"}, "it says when an evicted pod has been kept for long enough; who deletes it is decided elsewhere"},
	"lifecycle/taints":    {[]string{"lifecycle/facts"}, "which taints a node is to have follows from the node; whose turn it is is decided elsewhere"},
	"lifecycle/zones":     {[]string{"lifecycle/deadline", "lifecycle/facts"}, "states, rates and turns follow from counts and times; what is done with a turn is decided elsewhere"},

	// Languages at the edge.
	"fields":        {nil, "it reads what users write, whatever it is about"},
	"doctor":        {[]string{"eviction", "kubeletconfig", "signal"}, "it judges facts; who looked, and how, is decided elsewhere"},
	"kubeletconfig": {[]string{"fields", "signal"}, "it reads what a kubelet is configured to do and says what follows for who shares its node; where files lie is not its business"},
	"objects":       {[]string{"lifecycle/facts"}, "it turns nodes and pods, as core/v1 knows them, into facts, and ends there; what is doubted, shared or made up is decided by who reads"},
	"pods":          {[]string{"cri", "fields", "signal"}, "it turns pods, as core/v1 and the runtime know them, into facts, and ends there"},
	"follow":        {nil, "it keeps a store up to date, whatever is in it; what a fault means is for whoever follows"},
	"slimpods":      {[]string{"follow", "pods"}, "it decodes what is read of a pod; who reads, and what follows, is not its business"},
	"apiserver":     {[]string{"follow", "pods", "signal", "slimpods"}, "it tells what the API server knows of one node; what follows from it is decided elsewhere"},
	"cgroup":        {nil, "it knows the kernel's files, no signal and no threshold"},
	"cri":           {nil, "it speaks to the container runtime; who asks, and why, is not its business"},

	// The imperative shell: no package imports a sibling.
	"stats":        {[]string{"cgroup", "cri", "signal"}, "it observes; what follows from it is decided elsewhere"},
	"cgroupnotify": {[]string{"cgroup", "signal"}, "it says when to look, and knows neither who looks nor what is seen"},
	"kill":         {[]string{"cgroup"}, "it ends what it is told to end, and knows no reason"},
	"reclaim":      {[]string{"cri", "signal"}, "it removes what the runtime holds and nobody needs; who measures what is enough is handed over"},
	"report":       {[]string{"fields", "kubeletconfig", "signal"}, "it tells streams and the cluster how the node fares; why a condition is met is decided elsewhere"},
	"survey":       {[]string{"cgroup", "cri", "doctor", "fields", "follow", "kubeletconfig", "objects", "pods", "signal", "slimpods"}, "it looks and hands over facts, of lists object by object; what they mean is doctor's business"},
	"podstatus":    {[]string{"signal", "slimpods"}, "it tells what became of a pod; what is to become of it is decided elsewhere"},
	"state":        {nil, "it keeps a state, whatever is in it"},

	"metrics":   {[]string{"signal"}, "it counts what it is told of; who tells it is put together elsewhere"},
	"endpoints": {nil, "it serves what others found, and looks at nothing itself"},

	"ladder": {[]string{"eviction", "signal"}, "it knows the order in which a pod is ended, and neither the kernel nor the API server"},

	// What drives the core.
	"config":    {[]string{"eviction", "fields", "lifecycle/agents", "lifecycle/evidence", "lifecycle/fleet", "lifecycle/health", "lifecycle/zones", "restraint", "signal"}, "it compiles what users write into policies"},
	"lifecycle": {[]string{"follow", "lifecycle/facts", "lifecycle/fleet", "objects", "slimpods"}, "it feeds the fleet and carries out what comes back; what follows from what is the fleet's business"},
	"agent":     {[]string{"eviction", "ranking", "restraint", "signal"}, "it is handed its ports and knows none of their implementations"},
	"rehearse":  {[]string{"config", "fields", "lifecycle/agents", "lifecycle/deadline", "lifecycle/evictions", "lifecycle/facts", "lifecycle/fleet", "lifecycle/health", "lifecycle/zones", "objects"}, "it plays the API server and the nodes, and has the fleet decide; it reaches for the cores to hand it a policy, and to say why"},
	"simulate":  {[]string{"agent", "config", "eviction", "fields", "pods", "rehearse", "restraint", "signal"}, "it runs the agent's own cycle over a file: no kernel, no clock, no ranking of its own"},

	// The one place that knows every implementation.
	"cmd/plimsoll": {[]string{"agent", "apiserver", "arming", "cgroup", "cgroupnotify", "config", "cri", "doctor", "endpoints", "eviction", "fields", "follow", "kill", "kubeletconfig", "ladder", "lifecycle", "lifecycle/facts", "lifecycle/fleet", "lifecycle/zones", "metrics", "pods", "podstatus", "reclaim", "report", "restraint", "signal", "simulate", "state", "stats", "survey"},
		"it puts the program together, and nothing but the program"},

	// What is not the product: it may use the product, never the other way round.
	"test/hog":              {nil, "a workload knows nothing of who will end it"},
	"test/anypods":          {[]string{"slimpods"}, "pods at random know how they are decoded, and nothing else of what reads them"},
	"test/bulk":             {nil, "pods of any size know nothing of what lists them"},
	"test/logbook":          {nil, "it keeps what was logged, whoever logs"},
	"test/sandbox":          {[]string{"test/hog"}, "it makes a node of cgroups without the code that is tested in it"},
	"test/cluster":          {[]string{"test/hog", "test/sandbox"}, "it starts what is not ours, and knows nothing of the product"},
	"test/cluster/workload": {[]string{"test/hog"}, "it is the hog in an image"},
	"test/hollow":           {nil, "nodes without machines know nothing of who judges them"},
	"test/chronicle":        {nil, "it keeps what happened, whoever did it"},
	"test/failover":         {nil, "it is tests alone"},
	"test/liveness":         {nil, "it is tests alone"},
	"test/trial":            {[]string{"agent", "test/hog", "test/sandbox"}, "of the product it knows the binary and the form of its decision log"},
	"test/e2e":              {nil, "it is tests alone"},
	"test/image":            {nil, "it is tests alone"},
	"test/whole":            {nil, "it is tests alone"},
	"test/vm":               {[]string{"test/vm/wire"}, "it boots a machine and runs programs in it, whatever they are"},
	"test/vm/init":          {[]string{"test/vm/wire"}, "it is all there is in the machine but what is tried"},
	"test/vm/wire":          {nil, "it is what both sides of a serial line say"},
	"test/bench":            {[]string{"agent", "test/hog", "test/sandbox", "test/trial"}, "it measures the binary from outside"},
	"test/crowd":            {nil, "it is a cluster for whoever is measured, and knows none of them"},
	"test/bench/lifecycle":  {[]string{"apiserver", "config", "lifecycle", "test/crowd"}, "it runs the controller as the program does, by its defaults"},
	"demo":                  {[]string{"agent", "pods", "signal", "test/hog", "test/sandbox", "test/trial"}, "it shows the binary at work"},
}

// mayUse says who may import what is not ours: a prefix of the import path,
// and the packages that may.
var mayUse = []struct {
	prefix string
	by     []string
	why    string
}{
	{"google.golang.org/grpc", []string{"cri", "test/cluster"}, "it carries what is asked of the runtime (docs/decisions/012)"},
	{"k8s.io/cri-api/", []string{"cri", "test/cluster"}, "its types end where they come in (docs/decisions/012)"},
	{"golang.org/x/sys/", []string{"agent", "cgroup", "cgroupnotify", "kill", "state", "stats", "test/"}, "system calls are made where the kernel is spoken to, and nowhere else"},
	{"golang.org/x/term", []string{"demo", "test/"}, "only the demo draws on a terminal"},
	{"k8s.io/api/", []string{"apiserver", "cmd/", "lifecycle", "objects", "pods", "podstatus", "rehearse", "report", "slimpods", "survey", "simulate", "test/anypods", "test/bulk", "test/chronicle", "test/bench/lifecycle", "test/cluster", "test/crowd", "test/hollow"}, "Kubernetes types are converted at the edge"},
	{"k8s.io/apimachinery/", []string{"apiserver", "cmd/", "config", "fields", "follow", "lifecycle", "objects", "pods", "podstatus", "rehearse", "report", "slimpods", "survey", "simulate", "test/anypods", "test/bulk", "test/chronicle", "test/bench/lifecycle", "test/cluster", "test/crowd", "test/hollow"}, "quantities are parsed where users write them, objects read where the server is spoken to; the core has its own numbers"},
	{"k8s.io/client-go/", []string{"apiserver", "follow", "lifecycle", "podstatus", "report", "slimpods", "survey", "test/bulk", "test/chronicle", "test/bench/lifecycle", "test/cluster", "test/crowd", "test/hollow"}, "one package holds the connection to the API server (docs/decisions/016); who writes is handed its client"},
	{"k8s.io/component-helpers/", []string{"pods"}, "effective requests are computed once, at the edge"},
	{"k8s.io/klog/", []string{"cmd/", "follow", "lifecycle", "test/bench/lifecycle"}, "it is silenced, or goes into the program's own log; nobody logs through it"},
	{"sigs.k8s.io/", []string{"fields", "test/anypods", "test/cluster"}, "what users write is read in one place"},
	{"github.com/fsnotify/fsnotify", []string{"cmd/"}, "it says when manifests changed (docs/decisions/010)"},
	{"github.com/spf13/cobra", []string{"cmd/"}, "the command line is the program's, not its parts'"},
	{"github.com/spf13/pflag", []string{"config"}, "flags are made from the one table of options"},
	{"github.com/google/cadvisor/", []string{"stats"}, "it tells the machine's facts, and what pods use to whom wants its figures (docs/decisions/002, 013)"},
	{"github.com/containerd/cgroups/", []string{"cgroup", "test/sandbox"}, "it detects versions and makes sandboxes (docs/decisions/001)"},
	{"github.com/prometheus/client_golang/", []string{"metrics"}, "one package holds the instruments; the others are handed functions (docs/decisions/019)"},
	{"github.com/opencontainers/", []string{"test/sandbox"}, "it is the language of that library"},
}

// shell are the packages that may not know each other.
var shell = []string{"cgroupnotify", "endpoints", "kill", "metrics", "podstatus", "reclaim", "report", "state", "stats", "survey"}

func TestImportsOfOurOwn(t *testing.T) {
	tree := loaded(t)
	there := tree.packages()
	for dir, rule := range mayImport {
		if len(there[dir]) == 0 {
			t.Errorf("package %s is in the table of imports but holds no Go file: take it out, or bring it back", dir)
		}
		for _, p := range rule.ours {
			if slices.Contains(shell, dir) && slices.Contains(shell, p) {
				t.Errorf("the table lets %s import %s: both are shell packages, which are strangers to each other; let agent define a port and hand it over in cmd/plimsoll", dir, p)
			}
		}
	}
	for s := range tree.product {
		rule, listed := mayImport[s.dir]
		if !listed {
			t.Errorf("%s: package %s is not in the table of imports: add it with what it may import and why, here and in docs/design.md", s.name, s.dir)
			continue
		}
		for _, p := range s.imports() {
			ours, is := strings.CutPrefix(p, modulePath)
			if is && !slices.Contains(rule.ours, ours) {
				t.Errorf("%s imports %s, but %s may import only %v of ours: %s", s.name, ours, s.dir, rule.ours, rule.why)
			}
		}
	}
}

func TestImportsOfOthers(t *testing.T) {
	for s := range loaded(t).product {
		for _, p := range s.imports() {
			checkUse(t, s, p)
		}
	}
}

func checkUse(t *testing.T, s *source, imported string) {
	t.Helper()
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") || strings.HasPrefix(imported, modulePath) {
		return // the standard library, or ours
	}
	for _, use := range mayUse {
		if strings.HasPrefix(imported, use.prefix) {
			if !slices.ContainsFunc(use.by, func(by string) bool { return s.dir == by || strings.HasSuffix(by, "/") && strings.HasPrefix(s.dir, by) }) {
				t.Errorf("%s imports %s, which only %v may: %s", s.name, imported, use.by, use.why)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which is not in the table of foreign packages: add it with who may use it and why, and record the decision in docs/decisions", s.name, imported)
}

// pureStandard is what the core may use of the standard library: nothing that
// reads a clock, a file, the network or the environment, or writes anywhere.
var pureStandard = []string{"cmp", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8"}

func TestTheCoreIsPure(t *testing.T) {
	tree := loaded(t)
	for s := range tree.product {
		switch {
		case isCore(s.dir):
			for _, p := range s.imports() {
				if !strings.HasPrefix(p, modulePath) && !slices.Contains(pureStandard, p) {
					t.Errorf("%s imports %s: the core is pure, so that rehearsal and agent share it and tests need no world; take the value as an argument", s.name, p)
				}
			}
			tree.readsNoClock(t, s)
		case s.name == "agent/loop.go":
			for _, p := range s.imports() {
				if p != "context" && !strings.HasPrefix(p, modulePath) {
					t.Errorf("%s imports %s: the cycle touches the world through its ports only, so that it runs in virtual time too", s.name, p)
				}
			}
			tree.readsNoClock(t, s)
		}
	}
}

// ofClock are the names of package time that read a clock or wait for one.
var ofClock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func (t *tree) readsNoClock(test *testing.T, s *source) {
	test.Helper()
	clock := s.localName("time")
	if clock == "" {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock && slices.Contains(ofClock, sel.Sel.Name) {
			test.Errorf("%s: time.%s: decisions read no clock, so that the same input gives the same decision; take the time as an argument", t.at(sel), sel.Sel.Name)
		}
		return true
	})
}

func TestNobodySleeps(t *testing.T) {
	// The one place where time passing is what was asked for.
	const hogThatStalls = "test/hog/run.go"
	tree := loaded(t)
	for _, s := range tree.sources {
		clock := s.localName("time")
		if clock == "" || s.name == hogThatStalls {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock {
					t.Errorf("%s: time.Sleep: wait for the thing itself, it is both faster and sure", tree.at(sel))
				}
			}
			return true
		})
	}
}

func TestNoKubernetesItself(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(loaded(t).root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if slices.Contains(strings.Fields(line), "k8s.io/kubernetes") {
			t.Errorf("go.mod: %s: k8s.io/kubernetes is no library: it brings 33 replace lines and an API that nobody promises; use its published staging modules, or write it", strings.TrimSpace(line))
		}
	}
}

func TestNoPathOfADevelopersMachine(t *testing.T) {
	tree := loaded(t)
	needles := []string{"/ho" + "me/", "/Us" + "ers/"}
	if strings.Count(tree.root, "/") > 1 {
		needles = append(needles, tree.root+"/")
	}
	for _, name := range tree.tracked(t) {
		text, err := os.ReadFile(filepath.Join(tree.root, name))
		if err != nil {
			continue // removed, not committed yet
		}
		for _, needle := range needles {
			if i := strings.Index(string(text), needle); i >= 0 {
				line := 1 + strings.Count(string(text[:i]), "\n")
				t.Errorf("%s:%d: holds %s: a clone elsewhere has no such place; write it relative to the repository", path.Clean(name), line, needle)
			}
		}
	}
}
