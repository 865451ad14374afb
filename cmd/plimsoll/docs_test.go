package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

// namedFlag matches a flag in a text, with its value if that is one word: no
// placeholder, list or map.
var namedFlag = regexp.MustCompile(`\B--([a-z][a-z0-9-]*[a-z0-9])(?:=([a-z][a-z-]*)(?:[^\w<=,.:/…-]|$))?`)

// flagsOfOthers are the flags of other programs that documents name.
var flagsOfOthers = strings.Fields(`
	all-namespaces as bound-object-kind bound-object-name certificate-authority clusterrole duration flatten for list minify
	overwrite namespace prefix previous selector server serviceaccount tail user
	force-conflicts sort-by field-selector from-file from-literal replicas
	inodes api-versions create-namespace install no-hooks reset-then-reuse-values set values
	config-dir data-dir experimental-allocatable-ignore-eviction housekeeping-interval kernel-memcg-notification
	bigheap controllers runtime-config status-taint now type subresource terminated-pod-gc-threshold
	unit vacuum-size check format ignore-missing ignore-not-found reset-values version cgroup
	show-labels show-managed-fields raw
	client context cluster token as-group as-uid client-certificate client-key disable-compression insecure-skip-tls-verify proxy-url
	request-timeout tls-server-name as-user-extra template no-headers allow-missing-template-keys max yes manifest`) // the last two lines: of kubectl plimsoll

// Documents, examples, manifests and help texts name only flags and values of the program.
func TestDocs_NameFlagsThatExist(t *testing.T) {
	known := map[string]bool{"help": true}
	texts := operatorTexts(t)
	eachCommand(rootCommand(), func(c *cobra.Command) {
		text := c.Short + "\n" + c.Long + "\n" + c.Example
		c.Flags().VisitAll(func(f *pflag.Flag) {
			known[f.Name] = true
			text += "\n" + f.Usage
		})
		texts["the help of "+c.CommandPath()] = text
	})
	if len(texts) < 50 || len(known) < 100 {
		t.Fatalf("found %d texts and %d flags, want at least 50 and 100", len(texts), len(known))
	}
	for name, text := range texts {
		for _, found := range namedFlag.FindAllStringSubmatch(text, -1) {
			flag, value := found[1], found[2]
			switch {
			case !known[flag] && !slices.Contains(flagsOfOthers, flag) && !strings.Contains(text, "--"+flag+"-…"):
				t.Errorf("%s names the flag --%s, which does not exist", name, flag)
			case refusesValue(flag, value):
				t.Errorf("%s names --%s=%s, which the flag rejects", name, flag, value)
			}
		}
	}
}

func TestDocs_InvalidValueIsDetected(t *testing.T) {
	for text, want := range map[string]bool{
		"`--early-eviction=off`": true, "`--early-eviction=never`": false, "--mode=replaced,": false, "--mode=replaced\n": true, "--mode=replace\n": false,
		"--dry-run=no ": true, "--dry-run=false ": false, "`--eviction-soft=key<value,…`": false, "--proc-root=here ": false,
	} {
		found := namedFlag.FindStringSubmatch(text)
		if found == nil || refusesValue(found[1], found[2]) != want {
			t.Errorf("%q: matched %q, want rejected %t", text, found, want)
		}
	}
}

// namedMetric matches a metric of the program in a text.
var namedMetric = regexp.MustCompile(`\b(plimsoll|node_collector|taint_eviction_controller)_[a-z_]+[a-z]\b`)

// documentedMetric matches a row of the table of metrics.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (?:counter|gauge|histogram) \\|")

// Documents, manifests and dashboards name only metrics in the table of metrics, and the dashboards
// show each of them.
func TestDocs_NameMetricsThatExist(t *testing.T) {
	texts := operatorTexts(t)
	known, found, dashboards := texts["docs/reference/metrics.md"], 0, ""
	for name, text := range texts {
		if strings.HasPrefix(name, "deploy/helm/plimsoll/dashboards/") && filepath.Ext(name) == ".json" {
			dashboards += text
		}
		for _, metric := range namedMetric.FindAllString(text, -1) {
			found++
			if !strings.Contains(known, "| `"+strings.TrimSuffix(metric, "_bucket")+"` |") {
				t.Errorf("%s names the metric %s, which does not exist", name, metric)
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d names of metrics, want at least 100", found)
	}
	shown := namedMetric.FindAllString(dashboards, -1)
	for _, row := range documentedMetric.FindAllStringSubmatch(known, -1) {
		if !slices.Contains(shown, row[1]) && !slices.Contains(shown, row[1]+"_bucket") {
			t.Errorf("no dashboard in deploy/helm/plimsoll/dashboards shows %s", row[1])
		}
	}
}

// inThePod matches a command that runs in the pod of an agent or controller.
var inThePod = regexp.MustCompile(`exec POD -- /plimsoll ([a-z]+)`)

// The endpoints are behind tokens and a NetworkPolicy, and nodes have no plimsoll binary.
// Therefore the commands of runbooks run in the pod.
func TestRunbooks_CommandsRunInPod(t *testing.T) {
	text := ""
	for name, page := range operatorTexts(t) {
		if strings.HasPrefix(name, "docs/runbooks/") {
			text += page
		}
	}
	for _, words := range []string{"curl", "/readyz", "`plimsoll arm --local`"} {
		if strings.Contains(text, words) {
			t.Errorf("docs/runbooks has %s: use kubectl exec POD -- /plimsoll", words)
		}
	}
	var commands []string
	for _, found := range inThePod.FindAllStringSubmatch(text, -1) {
		if c, _, err := rootCommand().Find(found[1:]); err != nil || c.Name() != found[1] {
			t.Errorf("docs/runbooks has the unknown command %s: %v", found[0], err)
		}
		commands = append(commands, found[1])
	}
	if !slices.Contains(commands, "health") || !slices.Contains(commands, "arm") {
		t.Errorf("docs/runbooks has the commands %v, want health and arm among them", commands)
	}
}

// refusesValue reports whether an option of agent or controller has a list of values
// without this one.
func refusesValue(flag, value string) bool {
	if value == "" {
		return false
	}
	agent, controller := pflag.NewFlagSet("agent", pflag.ContinueOnError), pflag.NewFlagSet("controller", pflag.ContinueOnError)
	ofAgent, ofController := agentconfig.AddFlags(agent), controllerconfig.AddFlags(controller)
	var err error
	switch { // the flags accept any text, which Load checks
	case agent.Set(flag, value) == nil:
		_, err = agentconfig.Load("", ofAgent)
	case controller.Set(flag, value) == nil:
		_, err = controllerconfig.Load("", ofController)
	}
	var faults strictyaml.Faults
	errors.As(err, &faults)
	return slices.ContainsFunc(faults, func(f strictyaml.Fault) bool {
		return f.Path == "--"+flag && notAChoice.MatchString(f.Problem)
	})
}

// notAChoice matches the fault of a value that is not in the list.
var notAChoice = regexp.MustCompile("^(must be one of|must be true or false|unknown choice)")

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// operatorTexts are the files that operators read, by name.
func operatorTexts(t *testing.T) map[string]string {
	t.Helper()
	root, texts := filepath.Join("..", ".."), map[string]string{}
	// Decision records are omitted: they also describe earlier states.
	for _, place := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "deploy", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, place), func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.Name() == "decisions" {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".yaml", ".json", ".tpl", ".txt", ".service"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			texts[filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}
