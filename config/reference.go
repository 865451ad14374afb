package config

import (
	"fmt"
	"slices"
	"strings"
)

// Reference is docs/configuration.md, made from the tables of options so that it
// can not drift from the program.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the tables of options in config by go test ./config -update: do not edit. -->

Every option can be given as a flag or as a field of the file named by ` + "`--config`" + `. A flag wins over the
file, the file over the default; a map or a list given as a flag replaces the file's whole one. All faults are
reported at once, and a configuration with faults is not used in part.

## The agent

Fields and flags that the kubelet has too have its names, syntax and meaning, so that the eviction block of a
KubeletConfiguration can be pasted in.

`)
	head(&b, AgentKind)
	b.WriteString(`evictionHard:
  memory.available: 500Mi
  nodefs.available: 10%
evictionSoft:
  memory.available: 1Gi
evictionSoftGracePeriod:
  memory.available: 1m30s
evictionMinimumReclaim:
  memory.available: 200Mi
` + "```\n\n")
	rows(&b, agentKind.options)
	b.WriteString(`
A threshold is a quantity (` + "`100Mi`, `5k`" + `), or a percentage of the capacity; ` + "`0%` and `100%`" + ` switch it
off. On the command line maps are written as their flag's entry above says, several entries between commas, and
a flag given several times adds up: ` + "`--eviction-hard='memory.available<500Mi,nodefs.available<10%'`" + `.

## The controller

Flags that kube-controller-manager has, or had, have its names and meanings. What decides comes first; a
ClusterScenario may set these fields, too. Then follows what the program needs beside that.

`)
	head(&b, ControllerKind)
	b.WriteString(`mode: replace
nodeMonitorGracePeriod: 50s
maxUnhealthy: 20%
fullyDisruptedRate: 0
` + "```\n\n")
	rows(&b, lifecycleOptions)
	b.WriteString("\n")
	rows(&b, slices.Concat(processOptions, controllerEndpoints))
	b.WriteString(`
The taint manager and taint based evictions make four modes, as Kubernetes 1.16 had them:

| enableTaintManager | taintBasedEvictions | a node that is not ready or unreachable | its pods |
|-|-|-|-|
| true | true (as it is if not given) | is tainted NoExecute | go by their tolerations |
| true | false | is not tainted NoExecute | go after podEvictionTimeout; by tolerations where somebody else tainted the node |
| false | true | is tainted NoExecute | stay |
| false | false (as it is if not given) | is not tainted NoExecute | go after podEvictionTimeout |
`)
	return b.String()
}

func head(b *strings.Builder, kind string) {
	fmt.Fprintf(b, "```yaml\napiVersion: %s\nkind: %s\n", APIVersion, kind)
}

func rows[C any](b *strings.Builder, options []option[C]) {
	b.WriteString("| field | flag | default | meaning |\n|-|-|-|-|\n")
	for i := range options {
		o := &options[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", o.field, o.flagCell(), o.presetCell(), cell(o.help))
	}
}

func (o *option[C]) flagCell() string {
	form := map[shape]string{boolean: "", list: "=a,b", lessMap: "=key<value,…", equalMap: "=key=value,…", gateMap: "=key=bool,…", text: "=…"}[o.shape]
	switch {
	case o.flag == "-":
		return "none"
	case len(o.flag) == 1:
		return code("-" + o.flag + " …")
	}
	return code("--" + o.flag + form)
}

func (o *option[C]) presetCell() string {
	if o.preset == "" {
		return "empty"
	}
	return code(o.preset)
}

func code(text string) string { return "`" + text + "`" }

// cell is text in one cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
