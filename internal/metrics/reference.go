package metrics

import (
	"fmt"
	"strings"
)

// Reference returns docs/metrics.md, generated from the tables of metrics so that both always
// agree.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made from the tables in metrics by go test ./internal/metrics -update: do not edit. -->

Served as text under ` + "`/metrics`" + `, beyond loopback to tokens with a right
([operations.md](operations.md#reading-metrics)). Durations are in seconds. Besides there are the usual
` + "`go_*` and `process_*`" + ` metrics of the own process.

## The agent

[operations.md](operations.md#endpoints-and-metrics) says where they are served. Where a metric means what one of the
kubelet's means it has that name behind our prefix, the same labels and the same buckets. No label holds the name of a
pod or an image: the decision log does.

`)
	rows(&b, table[:])
	b.WriteString(`
Counters are there at 0 from the start, so that the first event is an increase; the histogram of ages comes with the
first eviction. Signals have series if they have a threshold, and while they are known: ` + "`absent()` and\n`plimsoll_signal_unknown == 1`" + ` find those that are not.

## The controller

[controller.md](controller.md#what-to-watch) says what to watch. What Kubernetes' own controllers count has their names,
types and buckets, so that dashboards and alerts go on working; the zone is written region/zone. No label holds the name
of a node or a pod.

`)
	rows(&b, controllerTable[:])
	b.WriteString(`
What is told of the cluster has no series before the first lists of the API server are complete. Zones, timers, suspects,
breaker and budget are told by the leader alone: sum over replicas is right for them, not for nodes, pods and renewals.
`)
	return b.String()
}

func rows(b *strings.Builder, of []definition) {
	b.WriteString("| metric | kind | labels | meaning |\n|-|-|-|-|\n")
	for i := range of {
		d := &of[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", d.name, d.kind, labelCell(d.labels), d.help)
	}
}

func labelCell(labels []label) string {
	if len(labels) == 0 {
		return "none"
	}
	cells := make([]string, 0, len(labels))
	for _, l := range labels {
		cells = append(cells, fmt.Sprintf("`%s`: %s", l.name, l.values))
	}
	return strings.Join(cells, "; ")
}
