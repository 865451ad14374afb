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

// mayImport is the architecture: the packages of this module that each package may import, and
// the reason. docs/internals/design.md draws it. Files ending in _test.go are exempt, but the
// tests of a core package must not make it less pure.
var mayImport = map[string]struct {
	ours []string
	why  string
}{
	// The functional core.
	"eviction/signals": {nil, "it is the vocabulary: everybody speaks it, it speaks of nobody"},
	"eviction":         {[]string{"eviction/signals"}, "decisions are values made of signals; who ranks, kills or reports is not their business"},
	"agent/inflight":   {[]string{"eviction", "eviction/signals"}, "where an eviction stands follows from events and times; the agent carries out what it needs"},
	"ranking":          {[]string{"eviction/signals"}, "an order is made of pods and what they use; what it is for is decided elsewhere"},
	"eviction/limiter": {[]string{"eviction/signals"}, "it says who is spared by what evictions have led to; who would be evicted is decided elsewhere"},
	"internal/arming":  {nil, "whether an agent may act follows from words; who listens, and what follows, is decided elsewhere"},

	// The controller's cores, which do not import each other, and the packages that combine
	// them.
	"lifecycle/model":     {nil, "it is the vocabulary of the cluster's side"},
	"internal/timerqueue": {nil, "it keeps moments in order, whatever they are about"},
	"lifecycle/agents":    {[]string{"internal/timerqueue", "lifecycle/model"}, "it says what agents ask for and leave behind; who does it is decided elsewhere"},
	"lifecycle/confirm":   {[]string{"internal/timerqueue"}, "it says whether silence is believed; who is silent, and what follows, is decided elsewhere"},
	"lifecycle/heartbeat": {[]string{"internal/timerqueue", "lifecycle/model"}, "it says who is silent; whether that is believed is decided elsewhere"},
	"lifecycle/evictions": {[]string{"internal/timerqueue", "lifecycle/model"}, "when a pod has to go follows from taints and tolerations; who sends it away is decided elsewhere"},
	"lifecycle/core":      {[]string{"lifecycle/agents", "internal/timerqueue", "lifecycle/evictions", "lifecycle/confirm", "lifecycle/model", "lifecycle/heartbeat", "lifecycle/podgc", "lifecycle/taints", "lifecycle/zones"}, "it puts the cores of the cluster's side together; what is asked of the API server, and when it answers, is not its business"},
	"lifecycle/podgc":     {[]string{"internal/timerqueue", "lifecycle/model"}, "it says when an evicted pod has been kept for long enough; who deletes it is decided elsewhere"},
	"lifecycle/taints":    {[]string{"lifecycle/model"}, "which taints a node is to have follows from the node; whose turn it is is decided elsewhere"},
	"lifecycle/zones":     {[]string{"internal/timerqueue", "lifecycle/model"}, "states, rates and turns follow from counts and times; what is done with a turn is decided elsewhere"},

	// Formats at the edge.
	"internal/strictyaml":     {nil, "it reads what users write, whatever it is about"},
	"internal/options":        {[]string{"internal/strictyaml"}, "it reads options from flags and files; which options there are is decided by each program"},
	"internal/doctor":         {[]string{"eviction", "internal/kubeletconfig", "eviction/signals"}, "it judges facts; who looked, and how, is decided elsewhere"},
	"internal/kubeletconfig":  {[]string{"internal/strictyaml", "eviction/signals"}, "it reads what a kubelet is configured to do and says what follows for who shares its node; where files lie is not its business"},
	"lifecycle/convert":       {[]string{"lifecycle/model"}, "it turns nodes and pods, as core/v1 knows them, into facts, and ends there; what is doubted, shared or made up is decided by who reads"},
	"internal/kube/agentpods": {[]string{"internal/cri", "internal/strictyaml", "eviction/signals"}, "it turns pods, as core/v1 and the runtime know them, into facts, and ends there"},
	"internal/kube/reflector": {nil, "it keeps a store up to date, whatever is in it; what a fault means is for whoever follows"},
	"internal/kube/slimpods":  {[]string{"internal/kube/reflector", "internal/kube/agentpods"}, "it decodes what is read of a pod; who reads, and what follows, is not its business"},
	"internal/kube/client":    {[]string{"internal/kube/reflector", "internal/kube/agentpods", "eviction/signals", "internal/kube/slimpods"}, "it tells what the API server knows of one node; what follows from it is decided elsewhere"},
	"internal/cgroup":         {nil, "it knows the kernel's files, no signal and no threshold"},
	"internal/cri":            {nil, "it speaks to the container runtime; who asks, and why, is not its business"},

	// The imperative shell: no package imports a sibling.
	"stats":                    {[]string{"internal/cgroup", "internal/cri", "eviction/signals"}, "it observes; what follows from it is decided elsewhere"},
	"cgroupnotify":             {[]string{"internal/cgroup", "eviction/signals"}, "it says when to look, and knows neither who looks nor what is seen"},
	"internal/kill":            {[]string{"internal/cgroup"}, "it ends what it is told to end, and knows no reason"},
	"internal/gc":              {[]string{"internal/cri", "eviction/signals"}, "it removes what the runtime holds and nobody needs; who measures what is enough is handed over"},
	"internal/nodestatus":      {[]string{"internal/strictyaml", "internal/kubeletconfig", "eviction/signals"}, "it tells streams and the cluster how the node fares; why a condition is met is decided elsewhere"},
	"internal/doctor/probe":    {[]string{"internal/cgroup", "internal/cri", "internal/doctor", "internal/strictyaml", "internal/kube/reflector", "internal/kubeletconfig", "lifecycle/convert", "internal/kube/agentpods", "eviction/signals", "internal/kube/slimpods"}, "it looks and hands over facts, of lists object by object; what they mean is doctor's business"},
	"internal/evict/podstatus": {[]string{"eviction/signals", "internal/kube/slimpods"}, "it tells what became of a pod; what is to become of it is decided elsewhere"},
	"internal/checkpoint":      {nil, "it keeps a state, whatever is in it"},

	"internal/metrics": {[]string{"eviction/signals"}, "it counts what it is told of; who tells it is put together elsewhere"},
	"internal/healthz": {nil, "it serves what others found, and looks at nothing itself"},
	"internal/process": {[]string{"internal/cgroup"}, "it prepares the process of a program, whichever it is"},

	"internal/arming/disarmfile": {[]string{"internal/arming"}, "it reads and makes one file; what follows from it is decided elsewhere"},
	"internal/arming/rollout":    {[]string{"internal/arming", "internal/arming/disarmfile", "internal/doctor", "internal/kube/client", "internal/kube/reflector", "internal/nodestatus"}, "it writes a word of arming and waits for the agents' leases; what a word means is decided elsewhere"},
	"internal/doctor/examine":    {[]string{"agent/config", "internal/arming", "internal/cri", "internal/doctor", "internal/healthz", "internal/kube/client", "internal/kubeletconfig", "internal/doctor/probe", "eviction/signals"}, "it says where the doctor looks, by an agent's configuration; probe looks, and doctor judges"},

	"internal/evict": {[]string{"eviction", "eviction/signals"}, "it knows the order in which a pod is ended, and neither the kernel nor the API server"},

	// Packages that drive the core.
	"agent/config":     {[]string{"eviction", "internal/options", "internal/strictyaml", "eviction/limiter", "eviction/signals"}, "it compiles the agent's configuration into policies; the controller has its own, so that the agent links none of it"},
	"lifecycle/config": {[]string{"internal/options", "internal/strictyaml", "lifecycle/agents", "lifecycle/confirm", "lifecycle/core", "lifecycle/heartbeat", "lifecycle/zones"}, "it compiles the controller's configuration into policies; the agent has its own"},
	"lifecycle":        {[]string{"internal/kube/reflector", "lifecycle/model", "lifecycle/core", "lifecycle/convert", "internal/kube/slimpods"}, "it feeds the fleet and carries out what comes back; what follows from what is the fleet's business"},
	"agent":            {[]string{"agent/inflight", "eviction", "ranking", "eviction/limiter", "eviction/signals"}, "it is handed its ports and knows none of their implementations"},
	"simulate/cluster": {[]string{"lifecycle/config", "internal/strictyaml", "lifecycle/agents", "internal/timerqueue", "lifecycle/evictions", "lifecycle/model", "lifecycle/core", "lifecycle/heartbeat", "lifecycle/zones", "lifecycle/convert"}, "it plays the API server and the nodes, and has the fleet decide; it reaches for the cores to hand it a policy, and to say why"},
	"simulate":         {[]string{"agent", "agent/config", "eviction", "internal/options", "internal/strictyaml", "internal/kube/agentpods", "simulate/cluster", "eviction/limiter", "eviction/signals"}, "it runs the agent's own cycle over a file: no kernel, no clock, no ranking of its own"},

	// The compositions, one for each program, which import every implementation; and the
	// commands.
	"agent/app": {[]string{"agent", "agent/config", "agent/inflight", "cgroupnotify", "internal/options", "eviction", "eviction/limiter", "eviction/signals", "internal/arming", "internal/arming/disarmfile", "internal/cgroup", "internal/checkpoint", "internal/cri", "internal/doctor", "internal/doctor/examine", "internal/doctor/probe", "internal/evict", "internal/evict/podstatus", "internal/gc", "internal/healthz", "internal/kill", "internal/kube/agentpods", "internal/kube/client", "internal/kubeletconfig", "internal/metrics", "internal/nodestatus", "internal/process", "stats"},
		"it puts the agent together; the controller is not linked with it"},
	"lifecycle/app": {[]string{"lifecycle/config", "internal/options", "internal/evict/podstatus", "internal/healthz", "internal/kube/client", "internal/metrics", "internal/nodestatus", "internal/process", "lifecycle", "lifecycle/core", "lifecycle/model", "lifecycle/zones"},
		"it puts the controller together; the agent is not linked with it"},
	"cmd/plimsoll": {[]string{"agent/app", "agent/config", "lifecycle/config", "internal/options", "internal/arming", "internal/arming/rollout", "internal/cri", "internal/doctor", "internal/doctor/examine", "internal/doctor/probe", "internal/healthz", "internal/kubeletconfig", "internal/nodestatus", "internal/strictyaml", "lifecycle/app", "simulate"},
		"it holds commands: flags, help and exit statuses; what they do is done elsewhere"},

	// Packages outside the product. They may import the product; the product must not import
	// them.
	"test/harness/hog":              {nil, "a workload knows nothing of who will end it"},
	"test/harness/anypods":          {[]string{"internal/kube/slimpods"}, "pods at random know how they are decoded, and nothing else of what reads them"},
	"test/harness/bulk":             {nil, "pods of any size know nothing of what lists them"},
	"test/harness/logcapture":       {nil, "it keeps what was logged, whoever logs"},
	"test/harness/sandbox":          {[]string{"test/harness/hog"}, "it makes a node of cgroups without the code that is tested in it"},
	"test/harness/cluster":          {[]string{"test/harness/hog", "test/harness/sandbox"}, "it starts what is not ours, and knows nothing of the product"},
	"test/harness/cluster/workload": {[]string{"test/harness/hog"}, "it is the hog in an image"},
	"test/harness/hollow":           {nil, "nodes without machines know nothing of who judges them"},
	"test/harness/recorder":         {nil, "it keeps what happened, whoever did it"},
	"test/e2e/failover":             {nil, "it is tests alone"},
	"test/integration/liveness":     {nil, "it is tests alone"},
	"test/harness/trial":            {[]string{"agent", "test/harness/hog", "test/harness/sandbox"}, "of the product it knows the binary and the form of its decision log"},
	"test/e2e":                      {nil, "it is tests alone"},
	"test/e2e/image":                {nil, "it is tests alone"},
	"test/e2e/whole":                {nil, "it is tests alone"},
	"test/harness/vm":               {[]string{"test/harness/vm/wire"}, "it boots a machine and runs programs in it, whatever they are"},
	"test/harness/vm/init":          {[]string{"test/harness/vm/wire"}, "it is all there is in the machine but what is tried"},
	"test/harness/vm/wire":          {nil, "it is what both sides of a serial line say"},
	"test/bench":                    {[]string{"agent", "test/harness/hog", "test/harness/sandbox", "test/harness/trial"}, "it measures the binary from outside"},
	"test/harness/fakeapiserver":    {nil, "it is a cluster for whoever is measured, and knows none of them"},
	"test/bench/lifecycle":          {[]string{"internal/kube/client", "lifecycle", "lifecycle/config", "test/harness/fakeapiserver"}, "it runs the controller as the program does, by its defaults"},
	"test/demo":                     {[]string{"internal/kube/agentpods", "eviction/signals", "test/demo/screen", "test/harness/hog", "test/harness/sandbox", "test/harness/trial"}, "it shows the binary at work"},
	"test/demo/screen":              {[]string{"agent"}, "of the product it knows the form of the decision log"},
	"test/demo/picture":             {nil, "it renders text, of any program"},
}

// mayUse lists external imports by prefix of the path, with the packages that may import them.
var mayUse = []struct {
	prefix string
	by     []string
	why    string
}{
	{"google.golang.org/grpc", []string{"internal/cri", "test/harness/cluster"}, "it carries what is asked of the runtime (docs/internals/decisions/012)"},
	{"k8s.io/cri-api/", []string{"internal/cri", "test/harness/cluster"}, "its types end where they come in (docs/internals/decisions/012)"},
	{"golang.org/x/sys/", []string{"agent", "internal/cgroup", "cgroupnotify", "internal/kill", "internal/checkpoint", "stats", "test/"}, "system calls are made where the kernel is spoken to, and nowhere else"},
	{"golang.org/x/term", []string{"test/demo", "test/"}, "only the demo draws on a terminal"},
	{"k8s.io/api/", []string{"internal/kube/client", "agent/app", "lifecycle/app", "internal/arming/rollout", "lifecycle", "lifecycle/convert", "internal/kube/agentpods", "internal/evict/podstatus", "simulate/cluster", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/probe", "simulate", "test/harness/anypods", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow"}, "Kubernetes types are converted at the edge"},
	{"k8s.io/apimachinery/", []string{"internal/kube/client", "agent/app", "internal/arming/rollout", "agent/config", "internal/options", "internal/strictyaml", "internal/kube/reflector", "lifecycle", "lifecycle/convert", "internal/kube/agentpods", "internal/evict/podstatus", "simulate/cluster", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/probe", "simulate", "test/harness/anypods", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow"}, "quantities are parsed where users write them, objects read where the server is spoken to; the core has its own numbers"},
	{"k8s.io/client-go/", []string{"internal/kube/client", "internal/kube/reflector", "lifecycle", "internal/evict/podstatus", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/probe", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow"}, "one package holds the connection to the API server (docs/internals/decisions/016); who writes is handed its client"},
	{"k8s.io/component-helpers/", []string{"internal/kube/agentpods"}, "effective requests are computed once, at the edge"},
	{"k8s.io/klog/", []string{"internal/process", "internal/kube/reflector", "lifecycle", "test/bench/lifecycle"}, "it is silenced, or goes into the program's own log; nobody logs through it"},
	{"sigs.k8s.io/", []string{"internal/strictyaml", "test/harness/anypods", "test/harness/cluster"}, "what users write is read in one place"},
	{"github.com/fsnotify/fsnotify", []string{"agent/app"}, "it says when manifests changed (docs/internals/decisions/010)"},
	{"github.com/spf13/cobra", []string{"cmd/"}, "the command line is the program's, not its parts'"},
	{"github.com/spf13/pflag", []string{"internal/options", "agent/config", "lifecycle/config"}, "flags are made from the table of options of each program"},
	{"github.com/google/cadvisor/", []string{"stats"}, "it tells the machine's facts, and what pods use to whom wants its figures (docs/internals/decisions/002, 013)"},
	{"github.com/containerd/cgroups/", []string{"internal/cgroup", "test/harness/sandbox"}, "it detects versions and makes sandboxes (docs/internals/decisions/001)"},
	{"github.com/prometheus/client_golang/", []string{"internal/metrics"}, "one package holds the instruments; the others are handed functions (docs/internals/decisions/019)"},
	{"github.com/opencontainers/", []string{"test/harness/sandbox"}, "it is the language of that library"},
}

// shell lists the packages that must not import each other.
var shell = []string{"cgroupnotify", "internal/healthz", "internal/kill", "internal/metrics", "internal/evict/podstatus", "internal/gc", "internal/nodestatus", "internal/checkpoint", "stats", "internal/doctor/probe"}

func TestImportsOfOurOwn(t *testing.T) {
	tree := loaded(t)
	there := tree.packages()
	for dir, rule := range mayImport {
		if len(there[dir]) == 0 {
			t.Errorf("package %s is in the table of imports but holds no Go file: take it out, or bring it back", dir)
		}
		for _, p := range rule.ours {
			if slices.Contains(shell, dir) && slices.Contains(shell, p) {
				t.Errorf("the table lets %s import %s: both are shell packages, which are strangers to each other; let agent define a port and hand it over in agent/app", dir, p)
			}
		}
	}
	for s := range tree.product {
		rule, listed := mayImport[s.dir]
		if !listed {
			t.Errorf("%s: package %s is not in the table of imports: add it with what it may import and why, here and in docs/internals/design.md", s.name, s.dir)
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

// TestCompositions_AreIndependent checks that each program's composition can be imported and
// linked without the other program.
func TestCompositions_AreIndependent(t *testing.T) {
	tree := loaded(t)
	imports := map[string][]string{}
	for s := range tree.product {
		for _, p := range s.imports() {
			if ours, is := strings.CutPrefix(p, modulePath); is {
				imports[s.dir] = append(imports[s.dir], ours)
			}
		}
	}
	for from, strangers := range map[string][]string{"agent/app": {"lifecycle", "lifecycle/app", "lifecycle/config", "lifecycle/core"}, "agent/config": {"lifecycle/config", "lifecycle/core"}, "lifecycle/config": {"agent", "agent/config"}, "lifecycle/app": {"agent", "agent/app", "stats", "internal/kill"}} {
		linked := map[string]bool{}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			if !linked[queue[0]] {
				linked[queue[0]] = true
				queue = append(queue, imports[queue[0]]...)
			}
		}
		for _, p := range strangers {
			if linked[p] {
				t.Errorf("%s links %s, which is of the other program: what both need belongs in a package of its own", from, p)
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
		return // the standard library, or this module
	}
	for _, use := range mayUse {
		if strings.HasPrefix(imported, use.prefix) {
			if !slices.ContainsFunc(use.by, func(by string) bool { return s.dir == by || strings.HasSuffix(by, "/") && strings.HasPrefix(s.dir, by) }) {
				t.Errorf("%s imports %s, which only %v may: %s", s.name, imported, use.by, use.why)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which is not in the table of foreign packages: add it with who may use it and why, and record the decision in docs/internals/decisions", s.name, imported)
}

// pureStandard lists the packages of the standard library allowed in the core. None of them
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
		case isCheck(s.name):
			for _, p := range s.imports() {
				if p != "context" && !slices.Contains(pureStandard, p) && !strings.HasPrefix(p, modulePath) {
					t.Errorf("%s imports %s: a check reads the node through its ports only, so that it runs in virtual time too", s.name, p)
				}
			}
			tree.readsNoClock(t, s)
		}
	}
}

// ofClock lists the names of package time that read a clock or wait for one.
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
	// The only place that may sleep: a hog with the request to stall.
	const hogThatStalls = "test/harness/hog/run.go"
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
			continue // removed, but not committed yet
		}
		for _, needle := range needles {
			if i := strings.Index(string(text), needle); i >= 0 {
				line := 1 + strings.Count(string(text[:i]), "\n")
				t.Errorf("%s:%d: holds %s: a clone elsewhere has no such place; write it relative to the repository", path.Clean(name), line, needle)
			}
		}
	}
}
