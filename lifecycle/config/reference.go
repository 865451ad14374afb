package config

import (
	"slices"

	"plimsoll.dev/plimsoll/internal/options"
)

// Reference returns the chapter on the controller of docs/reference/configuration.md.
func Reference() string {
	return `## The controller

Flags that kube-controller-manager has, or had, have its names and meanings. What decides comes first; a
ClusterScenario may set these fields, too. Then follows what the program needs beside that.

` + "```yaml\n" + options.FileHead(Kind) + `mode: replace
nodeMonitorGracePeriod: 50s
maxUnhealthy: 20%
fullyDisruptedRate: 0
` + "```\n\n" + options.Rows(lifecycleOptions) + "\n" + options.Rows(slices.Concat(processOptions, controllerEndpoints)) + `
The taint manager and taint based evictions make four modes, as Kubernetes 1.16 had them:

| enableTaintManager | taintBasedEvictions | a node that is not ready or unreachable | its pods |
|-|-|-|-|
| true | true (as it is if not given) | is tainted NoExecute | go by their tolerations |
| true | false | is not tainted NoExecute | go after podEvictionTimeout; by tolerations where somebody else tainted the node |
| false | true | is tainted NoExecute | stay |
| false | false (as it is if not given) | is not tainted NoExecute | go after podEvictionTimeout |
`
}
