package test

import (
	"go/ast"
	"os"
	"os/exec"
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
	"eviction/signals": {nil, "the vocabulary of signals depends on no package"},
	"eviction":         {[]string{"eviction/signals"}, "decisions are values computed from signals; ranking, killing and reporting are separate"},
	"agent/inflight":   {[]string{"eviction", "eviction/signals"}, "the state of an eviction follows from events and times; the agent executes its steps"},
	"ranking":          {[]string{"eviction/signals"}, "an order follows from pods and their usage alone; its purpose is decided elsewhere"},
	"eviction/limiter": {[]string{"eviction/signals"}, "limits follow from the results of evictions; candidates are chosen elsewhere"},
	"internal/oomkill": {[]string{"eviction/signals", "internal/cgroup"}, "the explanation of a kill follows from the kernel's lines and from readings; of internal/cgroup it uses the names of cgroups"},
	"internal/arming":  {nil, "the arming state follows from inputs; reading them and acting on them are separate"},
	"internal/natural": {nil, "the order of names is independent of what they name"},

	// The controller's cores, which do not import each other, and the packages that combine
	// them.
	"lifecycle/model":     {nil, "the vocabulary of the controller depends on no package"},
	"internal/backoff":    {nil, "the delay between attempts is independent of what is tried"},
	"internal/timerqueue": {nil, "an ordered queue of deadlines is independent of their purpose"},
	"lifecycle/agents":    {[]string{"internal/backoff", "internal/timerqueue", "lifecycle/model"}, "the requests and the remains of agents are state; writes are executed elsewhere"},
	"lifecycle/confirm":   {[]string{"internal/backoff", "internal/timerqueue"}, "it decides whether a missed heartbeat is confirmed; heartbeats and consequences are separate"},
	"lifecycle/heartbeat": {[]string{"internal/timerqueue", "lifecycle/model"}, "it decides which heartbeats are missed; confirmation is separate"},
	"lifecycle/evictions": {[]string{"internal/timerqueue", "lifecycle/model"}, "eviction times follow from taints and tolerations; deletion is executed elsewhere"},
	"lifecycle/core":      {[]string{"internal/backoff", "lifecycle/agents", "internal/timerqueue", "lifecycle/evictions", "lifecycle/confirm", "lifecycle/model", "lifecycle/heartbeat", "lifecycle/podgc", "lifecycle/taints", "lifecycle/zones"}, "it combines the cores of the controller; requests to the API server are executed elsewhere"},
	"lifecycle/podgc":     {[]string{"internal/backoff", "internal/timerqueue", "lifecycle/model"}, "it decides when an evicted pod has been retained for long enough; deletion is executed elsewhere"},
	"lifecycle/taints":    {[]string{"lifecycle/model"}, "the expected taints follow from the node; rates are decided elsewhere"},
	"lifecycle/zones":     {[]string{"internal/timerqueue", "lifecycle/model"}, "states, rates and queue positions follow from counts and times; writes are executed elsewhere"},

	// Formats at the edge.
	"internal/strictyaml":       {nil, "strict decoding of YAML is independent of its content"},
	"internal/options":          {[]string{"internal/strictyaml"}, "options are read from flags and files; each program defines its own"},
	"internal/reload":           {[]string{"internal/options"}, "it decides when a changed file is in force; the program applies it"},
	"internal/doctor":           {[]string{"eviction", "internal/kubeletconfig", "eviction/signals"}, "findings follow from facts; facts are collected elsewhere"},
	"internal/evictionlog":      {[]string{"eviction/signals", "internal/decisionlog"}, "the form and the bounds of the record of evictions are independent of the place where it is stored"},
	"internal/why":              {[]string{"eviction/signals", "internal/decisionlog", "internal/evictionlog", "ranking"}, "an explanation follows from the record of an eviction; clients on any system use it"},
	"internal/kubeletconfig":    {[]string{"internal/strictyaml", "eviction/signals"}, "conclusions from a kubelet's configuration are independent of the location of its files"},
	"lifecycle/convert":         {[]string{"lifecycle/model"}, "it converts nodes and pods of core/v1 into facts; decisions are made elsewhere"},
	"internal/kube/agentpods":   {[]string{"internal/strictyaml", "eviction/signals"}, "it converts pods of core/v1 into facts; decisions are made elsewhere"},
	"internal/kube/runtimepods": {[]string{"internal/cri", "internal/kube/agentpods", "eviction/signals"}, "it converts pods of the runtime into facts; decisions are made elsewhere"},
	"internal/kube/api":         {nil, "it is a client of the resources that are used, without a purpose of its own"},
	"internal/kube/api/apitest": {[]string{"internal/kube/api"}, "it adapts client-go's clientset for tests"},
	"internal/kube/reflector":   {[]string{"internal/kube/api"}, "updating a store is independent of its content; the caller interprets faults"},
	"internal/kube/slimpods":    {[]string{"internal/kube/api", "internal/kube/reflector", "internal/kube/agentpods"}, "it decodes the fields of a pod that are used"},
	"internal/kube/client":      {[]string{"internal/kube/api", "internal/kube/reflector", "internal/kube/agentpods", "eviction/signals", "internal/kube/slimpods"}, "it reads the objects of one node from the API server; decisions are made elsewhere"},
	"internal/report":           {[]string{"agent/config", "eviction", "eviction/signals", "internal/decisionlog", "internal/recording", "internal/report/trial", "internal/svg", "internal/why"}, "it renders what a recording has, and decides nothing; files are read and written elsewhere"},
	"internal/report/trial":     {[]string{"eviction", "eviction/signals", "internal/decisionlog", "internal/document", "internal/recording", "internal/why"}, "a comparison of decisions with what others did follows from records; they are read and rendered elsewhere"},
	"internal/svg":              {nil, "elements of pictures are independent of what these show"},
	"internal/recording":        {[]string{"eviction/signals"}, "the format of recordings is independent of what records and replays"},
	"internal/cgroup":           {nil, "it reads and writes files of the kernel, without signals and thresholds"},
	"internal/cri":              {nil, "it makes requests to the container runtime; the caller has the purpose"},

	// The imperative shell: no package imports a sibling.
	"stats":                        {[]string{"internal/backoff", "internal/cgroup", "internal/cri", "eviction/signals"}, "it measures; decisions are made elsewhere"},
	"cgroupnotify":                 {[]string{"internal/cgroup", "eviction/signals"}, "it reports kernel notifications; the check is separate"},
	"internal/kill":                {[]string{"internal/cgroup"}, "it kills processes of a cgroup, without a reason of its own"},
	"internal/gc":                  {[]string{"internal/cri", "eviction/signals"}, "it removes unused images and dead containers; the caller measures the effect"},
	"internal/nodestatus":          {[]string{"internal/backoff", "internal/kube/api", "internal/strictyaml", "internal/kubeletconfig", "eviction/signals"}, "it reports the state of the node; conditions are decided elsewhere"},
	"internal/heartbeat":           {[]string{"internal/backoff", "internal/kube/api", "internal/kubeletconfig", "internal/vitals", "eviction/signals"}, "it renews leases; whether the agent works is decided elsewhere"},
	"internal/decisionlog":         {[]string{"eviction/signals", "ranking"}, "it has the form of a record, and writes lines; decisions are made elsewhere"},
	"internal/doctor/probe":        {[]string{"internal/kube/api", "internal/cgroup", "internal/cri", "internal/doctor", "internal/strictyaml", "internal/kube/reflector", "internal/kubeletconfig", "internal/kube/agentpods", "eviction/signals", "internal/kube/slimpods"}, "it collects facts, one object of a list at a time; findings are made elsewhere"},
	"internal/doctor/clusterprobe": {[]string{"internal/doctor", "internal/kube/api", "internal/kubeletconfig", "eviction/signals"}, "it collects facts of a cluster on any system; findings are made elsewhere"},
	"internal/doctor/groups":       {[]string{"eviction/signals", "internal/doctor", "internal/document", "internal/natural"}, "findings are presented by their codes; they are made elsewhere"},
	"internal/evict/podstatus":     {[]string{"internal/backoff", "internal/kube/api", "eviction/signals", "internal/kube/slimpods"}, "it reports the end of a pod; the choice of the pod is made elsewhere"},
	"internal/checkpoint":          {nil, "storing a state is independent of its content"},
	"internal/kmsg":                {nil, "it reads records of the kernel's log, and interprets none"},
	"internal/recording/ring":      {[]string{"internal/recording"}, "storing frames is independent of their content"},

	"internal/metrics": {[]string{"eviction/signals"}, "it counts observations of its callers; the composition connects them"},
	"internal/healthz": {nil, "it serves the results of its callers and measures nothing"},
	"internal/process": {[]string{"internal/cgroup"}, "it sets up the process of either program"},

	"internal/arming/disarmfile": {[]string{"internal/arming"}, "it reads and writes one file; the arming state is decided elsewhere"},
	"internal/arming/rollout":    {[]string{"eviction/signals", "internal/arming", "internal/doctor", "internal/kube/api", "internal/kube/reflector", "internal/heartbeat", "internal/natural"}, "it writes a setting of arming and waits for the agents' leases; the setting is interpreted elsewhere"},
	"internal/arming/preview":    {[]string{"internal/arming", "internal/clusterstatus", "internal/natural"}, "the effect of a setting follows from nodes and settings; both are read, and the setting is written, elsewhere"},
	"internal/evictionlog/store": {[]string{"internal/backoff", "internal/decisionlog", "internal/evictionlog", "internal/kube/api"}, "it stores the record of evictions in the cluster; of internal/decisionlog it uses the form of a record"},
	"internal/why/lookup":        {[]string{"eviction/signals", "internal/evict/podstatus", "internal/evictionlog", "internal/evictionlog/store", "internal/document", "internal/heartbeat", "internal/kube/agentpods", "internal/kube/api", "internal/why"}, "it reads the records of evictions, or the pod, its node and its agent's lease, for a user; they are explained elsewhere"},
	"agent/examine":              {[]string{"agent/config", "internal/arming", "internal/cri", "internal/doctor", "internal/doctor/clusterprobe", "internal/healthz", "internal/kube/client", "internal/kubeletconfig", "internal/doctor/probe", "eviction/signals"}, "it locates the sources of facts by an agent's configuration"},

	"internal/evict": {[]string{"eviction", "eviction/signals"}, "it has the order of steps that end a pod, without the kernel and the API server"},

	// Packages that drive the core.
	"agent/config":     {[]string{"eviction", "internal/options", "internal/strictyaml", "eviction/limiter", "eviction/signals"}, "it compiles the agent's configuration into policies; the controller has its own, so the agent does not link it"},
	"lifecycle/config": {[]string{"internal/options", "internal/strictyaml", "lifecycle/agents", "lifecycle/confirm", "lifecycle/core", "lifecycle/heartbeat", "lifecycle/zones"}, "it compiles the controller's configuration into policies; the agent has its own"},
	"lifecycle":        {[]string{"internal/kube/api", "internal/kube/reflector", "lifecycle/model", "lifecycle/core", "lifecycle/convert", "internal/kube/slimpods"}, "it passes observations to the core and executes its actions"},
	"agent":            {[]string{"internal/backoff", "agent/inflight", "eviction", "ranking", "eviction/limiter", "eviction/signals", "internal/decisionlog"}, "it uses ports and none of their implementations; of internal/decisionlog it uses the form of a record"},
	"agent/recorder":   {[]string{"agent", "eviction", "eviction/limiter", "eviction/signals", "internal/recording", "internal/recording/ring"}, "it selects what of the loop is recorded; the loop does not know how"},
	"simulate/cluster": {[]string{"lifecycle/config", "internal/strictyaml", "lifecycle/agents", "internal/timerqueue", "lifecycle/evictions", "lifecycle/model", "lifecycle/core", "lifecycle/heartbeat", "lifecycle/zones", "lifecycle/convert"}, "it simulates the API server and the nodes around the core of the controller"},
	"internal/tune":    {[]string{"agent/config", "eviction/signals", "internal/document", "internal/recording", "internal/strictyaml", "simulate"}, "a comparison of thresholds follows from replays; recordings are read elsewhere"},
	"simulate":         {[]string{"agent", "agent/config", "internal/recording", "eviction", "internal/options", "internal/strictyaml", "internal/kube/agentpods", "simulate/cluster", "eviction/limiter", "eviction/signals"}, "it runs the agent's own check over a file: no kernel, no clock, no ranking of its own"},

	// The compositions, one for each program, which import every implementation; and the
	// commands.
	"agent/app": {[]string{"agent", "agent/config", "agent/inflight", "agent/recorder", "internal/recording", "internal/recording/ring", "cgroupnotify", "internal/options", "eviction", "eviction/limiter", "eviction/signals", "internal/arming", "internal/arming/disarmfile", "internal/cgroup", "internal/checkpoint", "internal/cri", "internal/doctor", "agent/examine", "internal/doctor/probe", "internal/evict", "internal/evict/podstatus", "internal/gc", "internal/healthz", "internal/kill", "internal/kmsg", "internal/kube/agentpods", "internal/kube/client", "internal/kube/runtimepods", "internal/kubeletconfig", "internal/metrics", "internal/decisionlog", "internal/heartbeat", "internal/nodestatus", "internal/oomkill", "internal/process", "internal/vitals", "stats", "internal/evictionlog", "internal/evictionlog/store", "internal/reload"},
		"it composes the agent, without linking the controller"},
	"lifecycle/app": {[]string{"lifecycle/config", "internal/options", "internal/evict/podstatus", "internal/healthz", "internal/kube/client", "internal/metrics", "internal/decisionlog", "internal/evictionlog/store", "internal/process", "internal/reload", "lifecycle", "lifecycle/core", "lifecycle/model", "lifecycle/zones"},
		"it composes the controller, without linking the agent"},
	"cmd/plimsoll": {[]string{"cmd/internal/armcmd", "cmd/internal/help", "cmd/internal/recordingcmd", "cmd/internal/whycmd", "internal/cgroup", "internal/kube/client", "internal/buildinfo", "agent/app", "agent/config", "lifecycle/config", "internal/options", "internal/arming", "internal/arming/disarmfile", "internal/cri", "internal/doctor", "agent/examine", "internal/doctor/probe", "internal/healthz", "internal/kubeletconfig", "internal/heartbeat", "internal/strictyaml", "lifecycle/app", "internal/live", "internal/live/screen", "internal/recording", "internal/recording/ring", "internal/report", "internal/report/trial", "internal/tune", "eviction/signals", "simulate", "internal/why/lookup"},
		"it has the commands: flags, help and exit statuses; other packages implement them"},

	// The client, for any system.
	"internal/vitals":                {[]string{"eviction/signals"}, "the text of published values is independent of what publishes and reads it"},
	"internal/clusterstatus":         {[]string{"eviction/signals", "internal/arming", "internal/document", "internal/natural", "internal/vitals"}, "the state of a cluster follows from facts; the facts are read elsewhere"},
	"internal/document":              {nil, "the form of a document is independent of its content and of its printer"},
	"internal/output":                {[]string{"internal/document"}, "formats and tables are independent of their content"},
	"cmd/internal/whycmd":            {[]string{"internal/evictionlog", "internal/why/lookup"}, "the command why is the same in both programs, which have the connection and the formats"},
	"cmd/internal/armcmd":            {[]string{"internal/arming", "internal/arming/rollout"}, "the commands arm, disarm and cleanup have the same flags in both programs, which have the connection and the confirmation"},
	"cmd/internal/recordingcmd":      {[]string{"internal/recording", "internal/report"}, "the commands that work on recordings are the same in both programs, which have the sources"},
	"cmd/internal/help":              {nil, "the form of a help text is independent of its content"},
	"internal/buildinfo":             {nil, "what the toolchain recorded is the same for each program"},
	"internal/live":                  {[]string{"agent/config", "eviction", "eviction/signals", "internal/decisionlog", "internal/document", "internal/recording", "internal/why", "ranking"}, "the state of a node follows from its recording by the agent's own rules; recordings are read, and states are shown, elsewhere"},
	"internal/live/screen":           {[]string{"eviction/signals", "internal/live"}, "a text follows from a state, a size and settings; terminals are driven elsewhere"},
	"internal/agentexec":             {[]string{"eviction/signals", "internal/kube/api"}, "it runs commands in the pod of an agent, and bounds the answers; what they have is interpreted elsewhere"},
	"internal/kube/user":             {[]string{"internal/kube/api"}, "it connects to the cluster of a user, as kubectl does; commands have the purpose"},
	"internal/clusterstatus/collect": {[]string{"eviction/signals", "internal/arming", "internal/clusterstatus", "internal/heartbeat", "internal/kube/api", "internal/vitals"}, "it reads facts by one list of each kind; they are judged elsewhere"},
	"cmd/kubectl-plimsoll": {[]string{"cmd/internal/armcmd", "cmd/internal/help", "cmd/internal/recordingcmd", "cmd/internal/whycmd", "eviction/signals", "internal/agentexec", "internal/arming", "internal/arming/preview", "internal/backoff", "internal/buildinfo", "internal/clusterstatus", "internal/clusterstatus/collect", "internal/doctor", "internal/doctor/clusterprobe", "internal/doctor/groups",
		"internal/document", "internal/heartbeat", "internal/kube/user", "internal/live", "internal/live/screen", "internal/natural", "internal/output", "internal/why/lookup"},
		"it has the commands of the client, and links nothing of a node"},

	// Packages outside the product. They may import the product; the product must not import
	// them.
	"test/harness/hog":              {nil, "a workload is independent of the product"},
	"test/harness/anypods":          {[]string{"internal/kube/slimpods"}, "random pods depend only on how they are decoded"},
	"test/harness/bulk":             {nil, "pods of any size are independent of the product"},
	"test/harness/generated":        {nil, "it compares documents, of any program"},
	"test/harness/manpage":          {nil, "it renders the help of any program"},
	"test/harness/logcapture":       {nil, "it stores log records of any program"},
	"test/harness/statefile":        {[]string{"eviction", "internal/checkpoint"}, "it opens and reads the file of a state, which tests of several packages need"},
	"test/harness/sandbox":          {[]string{"test/harness/hog"}, "it makes a node of cgroups without the code under test"},
	"test/harness/cluster":          {[]string{"test/harness/hog", "test/harness/sandbox"}, "it starts components of Kubernetes, and is independent of the product"},
	"test/harness/cluster/workload": {[]string{"test/harness/hog"}, "it is the hog in an image"},
	"test/harness/hollow":           {nil, "nodes without machines are independent of the product"},
	"test/harness/recorder":         {nil, "it records changes of objects by any writer"},
	"test/e2e/failover":             {nil, "it has tests only"},
	"test/integration/liveness":     {nil, "it has tests only"},
	"test/harness/trial":            {[]string{"agent", "test/harness/hog", "test/harness/sandbox"}, "of the product it uses the binary and the form of its decision log"},
	"test/e2e":                      {nil, "it has tests only"},
	"test/e2e/image":                {nil, "it has tests only"},
	"test/e2e/whole":                {nil, "it has tests only"},
	"test/e2e/transcript":           {nil, "it renders the output of tests"},
	"test/harness/nodee2e":          {[]string{"test/harness/vm/wire"}, "it runs the node tests of Kubernetes against binaries"},
	"test/harness/vm":               {[]string{"test/harness/vm/wire", "test/harness/cluster"}, "it boots a virtual machine and runs programs in it"},
	"test/harness/vm/init":          {[]string{"test/harness/vm/wire"}, "it is the only program of the machine beside the one under test"},
	"test/harness/vm/wire":          {nil, "it is the protocol of both sides of a serial line"},
	"test/bench":                    {[]string{"agent", "test/harness/hog", "test/harness/sandbox", "test/harness/trial"}, "it measures the binary from outside"},
	"test/bench/barekubelet":        {nil, "it connects a kubelet to bare pods, and is independent of the product"},
	"test/harness/fakeapiserver":    {nil, "it serves a cluster to any client"},
	"test/bench/lifecycle":          {[]string{"internal/kube/api", "internal/kube/client", "lifecycle", "lifecycle/config", "test/harness/fakeapiserver"}, "it runs the controller with its defaults, as the program does"},
	"test/demo":                     {[]string{"internal/kube/agentpods", "eviction/signals", "test/demo/screen", "test/harness/hog", "test/harness/sandbox", "test/harness/trial"}, "it shows the binary at work"},
	"test/demo/screen":              {[]string{"agent"}, "of the product it uses the form of the decision log"},
	"test/demo/picture":             {[]string{"internal/svg"}, "it renders text of any program"},
	"test/demo/markup":              {nil, "it knows no picture"},
	"test/demo/incident":            {[]string{"eviction", "eviction/signals", "internal/svg", "simulate"}, "it draws what a simulation decides, and decides nothing"},
}

// mayUse lists external imports by prefix of the path, with the packages that may import them.
var mayUse = []struct {
	prefix string
	by     []string
	why    string
}{
	{"google.golang.org/grpc", []string{"internal/cri", "test/bench/barekubelet", "test/harness/cluster"}, "requests to the runtime use it (docs/internals/decisions/012)"},
	{"k8s.io/cri-api/", []string{"internal/cri", "test/bench/barekubelet", "test/harness/cluster"}, "its types are converted at the edge (docs/internals/decisions/012)"},
	{"golang.org/x/sys/", []string{"agent", "internal/cgroup", "cgroupnotify", "internal/kill", "internal/checkpoint", "stats", "test/"}, "system calls are made by the packages that use the kernel, and by no other"},
	{"golang.org/x/term", []string{"cmd/internal/recordingcmd", "test/demo", "test/"}, "questions are asked on a terminal, recordings are not written to one, and the demo draws on one"},
	{"k8s.io/api/", []string{"internal/agentexec", "internal/kube/api", "internal/kube/api/apitest", "internal/kube/client", "agent/app", "lifecycle/app", "internal/arming/rollout", "internal/clusterstatus/collect", "lifecycle", "lifecycle/convert", "internal/kube/agentpods", "internal/evict/podstatus", "simulate/cluster", "internal/heartbeat", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/clusterprobe", "internal/doctor/probe", "simulate", "test/harness/anypods", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow", "internal/evictionlog/store", "internal/why/lookup"}, "Kubernetes types are converted at the edge"},
	{"k8s.io/apimachinery/", []string{"internal/agentexec", "internal/kube/api", "internal/kube/api/apitest", "internal/kube/client", "agent/app", "internal/arming/rollout", "internal/clusterstatus/collect", "internal/kube/user", "internal/output", "agent/config", "internal/options", "internal/strictyaml", "internal/kube/reflector", "lifecycle", "lifecycle/convert", "internal/kube/agentpods", "internal/evict/podstatus", "simulate/cluster", "internal/heartbeat", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/clusterprobe", "internal/doctor/probe", "simulate", "test/harness/anypods", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow", "internal/evictionlog/store", "internal/why/lookup"}, "quantities are parsed where users write them, and objects are read at the edge; the core has its own numbers"},
	{"k8s.io/cli-runtime/", []string{"cmd/kubectl-plimsoll", "internal/kube/user", "internal/output"}, "the client is a plugin of kubectl, and has its flags and printers (docs/internals/decisions/050)"},
	{"k8s.io/client-go/", []string{"internal/kube/api", "internal/kube/api/apitest", "internal/kube/client", "internal/kube/user", "internal/kube/reflector", "lifecycle", "internal/evict/podstatus", "internal/nodestatus", "internal/kube/slimpods", "internal/doctor/clusterprobe", "internal/doctor/probe", "test/harness/bulk", "test/harness/recorder", "test/bench/lifecycle", "test/harness/cluster", "test/harness/fakeapiserver", "test/harness/hollow"}, "one package has the connection to the API server (docs/internals/decisions/016); writers receive its client"},
	{"k8s.io/streaming/", []string{"internal/kube/user"}, "a command in a pod runs over a WebSocket, or over SPDY where the server refuses one (docs/internals/decisions/053)"},
	{"charm.land/bubbletea/", []string{"cmd/kubectl-plimsoll"}, "the live view of the client drives a terminal (docs/internals/decisions/054)"},
	{"k8s.io/component-helpers/", []string{"internal/kube/agentpods"}, "effective requests are computed once, at the edge"},
	{"k8s.io/klog/", []string{"cmd/kubectl-plimsoll", "internal/process", "internal/kube/reflector", "lifecycle", "test/bench/lifecycle"}, "its output is discarded or redirected to the program's log; no package logs with it"},
	{"sigs.k8s.io/", []string{"internal/strictyaml", "test/harness/anypods", "test/harness/cluster", "test/harness/nodee2e"}, "input of users is decoded in one place"},
	{"github.com/fsnotify/fsnotify", []string{"agent/app"}, "it reports changes of manifests and of the disarm file (docs/internals/decisions/010)"},
	{"github.com/spf13/cobra", []string{"cmd/", "internal/output", "test/harness/manpage"}, "the command line belongs to the program, not to its packages; flags of kubectl's printers need the command"},
	{"github.com/spf13/pflag", []string{"internal/options", "agent/config", "lifecycle/config", "internal/kube/user", "test/harness/manpage"}, "flags are made from each program's table of options, and those of a connection by client-go"},
	{"github.com/google/cadvisor/", []string{"stats"}, "it provides facts of the machine, and usage of pods on request (docs/internals/decisions/002, 013)"},
	{"github.com/containerd/cgroups/", []string{"internal/cgroup", "test/harness/sandbox"}, "it detects versions and makes sandboxes (docs/internals/decisions/001)"},
	{"github.com/prometheus/client_golang/", []string{"internal/metrics"}, "one package has the instruments; the others receive functions (docs/internals/decisions/019)"},
	{"github.com/prometheus/", []string{"internal/metrics", "test/bench"}, "a measurement reads the histograms of an agent from its endpoint"},
	{"github.com/opencontainers/", []string{"test/harness/sandbox"}, "the arguments of containerd/cgroups have its types"},
}

// shell lists the packages that must not import each other.
var shell = []string{"cgroupnotify", "internal/healthz", "internal/kill", "internal/kmsg", "internal/metrics", "internal/evict/podstatus", "internal/gc", "internal/decisionlog", "internal/heartbeat", "internal/nodestatus", "internal/checkpoint", "internal/recording/ring", "stats", "internal/doctor/clusterprobe", "internal/doctor/probe"}

func TestImports_FollowArchitecture(t *testing.T) {
	tree := loaded(t)
	there := tree.packages()
	for dir, rule := range mayImport {
		if len(there[dir]) == 0 {
			t.Errorf("package %s is in the table of imports but has no Go file: remove the entry", dir)
		}
		for _, p := range rule.ours {
			if slices.Contains(shell, dir) && slices.Contains(shell, p) {
				t.Errorf("the table lets %s import %s: both are shell packages, which must not import each other; define a port in agent and connect it in agent/app", dir, p)
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
	for from, others := range map[string][]string{"agent/app": {"lifecycle", "lifecycle/app", "lifecycle/config", "lifecycle/core"}, "agent/config": {"lifecycle/config", "lifecycle/core"}, "lifecycle/config": {"agent", "agent/config"}, "lifecycle/app": {"agent", "agent/app", "stats", "internal/kill"}} {
		linked := map[string]bool{}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			if !linked[queue[0]] {
				linked[queue[0]] = true
				queue = append(queue, imports[queue[0]]...)
			}
		}
		for _, p := range others {
			if linked[p] {
				t.Errorf("%s links %s of the other program: move shared code to a package of its own", from, p)
			}
		}
	}
}

func TestImports_ThirdPartyOnlyWhereAllowed(t *testing.T) {
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
	t.Errorf("%s imports %s, which is not in the table of foreign packages: add it with its permitted users and the reason, and record the decision in docs/internals/decisions", s.name, imported)
}

// pureStandard lists the packages of the standard library allowed in the core. None of them
// reads a clock, a file, the network or the environment, or writes anywhere.
var pureStandard = []string{"cmp", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8"}

// renderStandard lists what a rendering uses beyond it: the same input has the same bytes.
var renderStandard = []string{"bytes", "encoding/json", "encoding/xml"}

func TestCore_IsPure(t *testing.T) {
	tree := loaded(t)
	for s := range tree.product {
		switch {
		case isCore(s.dir):
			for _, p := range s.imports() {
				if !strings.HasPrefix(p, modulePath) && !slices.Contains(pureStandard, p) {
					t.Errorf("%s imports %s: the core is pure, so that simulation and agent share it and tests need no environment; make the value an argument", s.name, p)
				}
			}
			tree.checkNoClock(t, s)
		case s.dir == "internal/live", s.dir == "internal/live/screen", s.dir == "internal/report", s.dir == "internal/report/trial", s.dir == "internal/svg", s.dir == "internal/tune":
			for _, p := range s.imports() {
				if !slices.Contains(renderStandard, p) && !slices.Contains(pureStandard, p) && !strings.HasPrefix(p, modulePath) {
					t.Errorf("%s imports %s: a report is made of its arguments alone, so that the same recording has the same bytes", s.name, p)
				}
			}
			tree.checkNoClock(t, s)
		case isCheck(s.name):
			for _, p := range s.imports() {
				if p != "context" && !slices.Contains(pureStandard, p) && !strings.HasPrefix(p, modulePath) {
					t.Errorf("%s imports %s: a check reads the node through its ports only, so that it runs in virtual time too", s.name, p)
				}
			}
			tree.checkNoClock(t, s)
		}
	}
}

// clockNames lists the names of package time that read a clock or wait for one.
var clockNames = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func (t *tree) checkNoClock(test *testing.T, s *source) {
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
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock && slices.Contains(clockNames, sel.Sel.Name) {
			test.Errorf("%s: time.%s: decisions read no clock, so that the same input gives the same decision; take the time as an argument", t.at(sel), sel.Sel.Name)
		}
		return true
	})
}

func TestSources_UseNoSleep(t *testing.T) {
	// The only permitted sleep: a hog with the request to stall.
	const stallingHog = "test/harness/hog/run.go"
	tree := loaded(t)
	for _, s := range tree.sources {
		clock := s.localName("time")
		if clock == "" || s.name == stallingHog {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock {
					t.Errorf("%s: time.Sleep: wait for the event itself, which is faster and reliable", tree.at(sel))
				}
			}
			return true
		})
	}
}

func TestGoMod_HasNoKubernetes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(loaded(t).root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if slices.Contains(strings.Fields(line), "k8s.io/kubernetes") {
			t.Errorf("go.mod: %s: k8s.io/kubernetes is no library: it requires 33 replace lines and has no stable API; use its published staging modules, or write the code", strings.TrimSpace(line))
		}
	}
}

func TestSources_HaveNoLocalPath(t *testing.T) {
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
		// The directory of the kubelet on every node of Container-Optimized OS is no local path.
		checked := strings.ReplaceAll(string(text), "/ho"+"me/kubernetes", "COS")
		for _, needle := range needles {
			if i := strings.Index(checked, needle); i >= 0 {
				line := 1 + strings.Count(checked[:i], "\n")
				t.Errorf("%s:%d: contains %s, which does not exist on other machines: write the path relative to the repository", path.Clean(name), line, needle)
			}
		}
	}
}

// TestProgram_LinksNoClientset checks that the program of nodes and of the controller links no package that registers
// every type of the API (docs/internals/decisions/038), nothing of kubectl (050), and nothing that only the client does (053, 054).
func TestProgram_LinksNoClientset(t *testing.T) {
	for _, p := range linked(t, "linux", "../cmd/plimsoll") {
		for _, refused := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "k8s.io/cli-runtime", "sigs.k8s.io/kustomize", "k8s.io/client-go/tools/remotecommand", "charm.land", "github.com/charmbracelet"} {
			if p == refused || strings.HasPrefix(p, refused+"/") {
				t.Errorf("plimsoll links %s: use internal/kube/api, and leave what is kubectl's to the client", p)
			}
		}
	}
}

// linked returns the packages of a program for a system.
func linked(t *testing.T, system, program string) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", program)
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// ofNodes lists what only a program on a node needs. Some of it compiles on other systems, and would make
// the client larger.
var ofNodes = []string{"agent", "stats", "cgroupnotify", "lifecycle", "simulate", "internal/cgroup", "internal/cri", "internal/kill", "internal/kmsg",
	"internal/kube/client", "internal/kube/runtimepods", "internal/evict", "internal/doctor/probe", "internal/metrics"}

// ofClient lists what a node uses too: the condition by which an agent requests an eviction, and the configuration in a
// recording.
var ofClient = []string{"internal/evict/podstatus", "agent/config"}

// TestClient_IsPortable checks that kubectl plimsoll links nothing of a node, on any system.
func TestClient_IsPortable(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, p := range linked(t, system, "../cmd/kubectl-plimsoll") {
			ours, is := strings.CutPrefix(p, modulePath)
			if is && !slices.Contains(ofClient, ours) && slices.ContainsFunc(ofNodes, func(of string) bool { return ours == of || strings.HasPrefix(ours, of+"/") }) ||
				strings.HasPrefix(p, "google.golang.org/grpc") || strings.HasPrefix(p, "github.com/google/cadvisor") || strings.HasPrefix(p, "k8s.io/cri-api") {
				t.Errorf("the client for %s links %s, which belongs to a node", system, p)
			}
		}
	}
}
