package config

import "plimsoll.dev/plimsoll/internal/options"

// Reference returns the chapter on the agent of docs/reference/configuration.md.
func Reference() string {
	return `## The agent

Fields and flags that the kubelet has too have its names, syntax and meaning. The eviction block of a KubeletConfiguration
can be pasted in ([migrate from the kubelet](../how-to/migrate-from-the-kubelet.md)).

` + "```yaml\n" + options.FileHead(Kind) + `evictionHard:
  memory.available: 500Mi
  nodefs.available: 10%
evictionSoft:
  memory.available: 1Gi
evictionSoftGracePeriod:
  memory.available: 1m30s
evictionMinimumReclaim:
  memory.available: 200Mi
` + "```\n\n" + options.Rows(table.Options) + `
A threshold is a quantity (` + "`100Mi`, `5k`" + `) or a percentage of the capacity. ` + "`0%` and `100%`" + ` switch it off. On the
command line, a map has the syntax of its flag above, with commas between entries, and a flag may be repeated:
` + "`--eviction-hard='memory.available<500Mi,nodefs.available<10%'`" + `.
`
}
