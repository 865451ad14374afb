package config

import (
	"fmt"
	"strings"
)

// Reference is docs/configuration.md, made from the table of options so that it
// can not drift from the program.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration of the agent

<!-- Made from the table in config/options.go by go test ./config -update: do not edit. -->

Every option can be given as a flag of ` + "`plimsoll agent`" + ` or as a field of the file named by
` + "`--config`" + `. A flag wins over the file, the file over the default; a map or a list given as a flag
replaces the file's whole one. Fields and flags that the kubelet has too have its names, syntax and
meaning, so that the eviction block of a KubeletConfiguration can be pasted in. All faults are reported
at once, and a configuration with faults is not used in part.

`)
	fmt.Fprintf(&b, "```yaml\napiVersion: %s\nkind: %s\n", APIVersion, AgentKind)
	b.WriteString(`evictionHard:
  memory.available: 500Mi
  nodefs.available: 10%
evictionSoft:
  memory.available: 1Gi
evictionSoftGracePeriod:
  memory.available: 1m30s
evictionMinimumReclaim:
  memory.available: 200Mi
` + "```" + `

| field | flag | default | meaning |
|-|-|-|-|
`)
	for i := range options {
		o := &options[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.field, o.flagCell(), o.presetCell(), cell(o.help))
	}
	b.WriteString(`
A threshold is a quantity (` + "`100Mi`, `5k`" + `), or a percentage of the capacity; ` + "`0%` and `100%`" + ` switch it
off. On the command line maps are written as their flag's entry above says, several entries between commas, and
a flag given several times adds up: ` + "`--eviction-hard='memory.available<500Mi,nodefs.available<10%'`" + `.
`)
	return b.String()
}

func (o *option) flagCell() string {
	form := map[shape]string{boolean: "", list: "=a,b", lessMap: "=key<value,…", equalMap: "=key=value,…", text: "=…"}[o.shape]
	switch {
	case o.flag == "-":
		return "none"
	case len(o.flag) == 1:
		return code("-" + o.flag + " …")
	}
	return code("--" + o.flag + form)
}

func (o *option) presetCell() string {
	if o.preset == "" {
		return "empty"
	}
	return code(o.preset)
}

func code(text string) string { return "`" + text + "`" }

// cell is text in one cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
