package config

import (
	"slices"

	"plimsoll.dev/plimsoll/internal/options"
)

// Reference returns the chapter on the controller of docs/reference/configuration.md.
func Reference() string {
	return `## The controller

Flags that kube-controller-manager has, or had, keep their names and meanings. The first table has the options that decisions
depend on; a [ClusterScenario](scenarios.md#clusterscenario-many-nodes) may set these fields too. The second table has the
options of the process.

` + "```yaml\n" + options.FileHead(Kind) + `mode: replace
nodeMonitorGracePeriod: 50s
maxUnhealthy: 20%
fullyDisruptedRate: 0
` + "```\n\n" + options.Rows(lifecycleOptions) + "\n" + options.Rows(slices.Concat(processOptions, controllerEndpoints)) + `
The fields enableTaintManager and taintBasedEvictions combine to four modes, as in Kubernetes 1.16:

| enableTaintManager | taintBasedEvictions | an unready or unreachable node | its pods |
|-|-|-|-|
| true | true (the default here) | is tainted NoExecute | are evicted by their tolerations |
| true | false | is not tainted NoExecute | are deleted after podEvictionTimeout, and evicted by their tolerations where a user tainted the node |
| false | true | is tainted NoExecute | stay |
| false | false (the default here) | is not tainted NoExecute | are deleted after podEvictionTimeout |
`
}
