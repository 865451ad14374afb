package metrics

import (
	"fmt"
	"strings"
)

// Reference returns docs/reference/metrics.md, generated from the tables of metrics so that both always
// agree.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made from the tables in metrics by go test ./internal/metrics -update: do not edit. -->

` + "`/metrics`" + ` serves them as text. Beyond loopback a token needs a right ([access](endpoints.md#access)). Durations are in
seconds. The usual ` + "`go_*` and `process_*`" + ` metrics of the process are served too. [Monitor](../how-to/monitor.md) has
the alerts.

## The agent

A metric with the meaning of a kubelet metric has its name with the prefix ` + "`plimsoll_`" + `, its labels and its buckets. No label
has the name of a pod or an image: the [decision log](decision-log.md) does.

`)
	rows(&b, table[:])
	b.WriteString(`
Counters start at 0, so that the first event is an increase. The histogram of ages exists from the first eviction on. A signal
has series if it has a threshold, and while it is known: ` + "`absent()` and `plimsoll_signal_unknown == 1`" + ` find the others.

## The controller

Metrics that Kubernetes' own controllers have too keep their names, types and buckets, so that dashboards and alerts continue to
work. The zone is written region/zone. No label has the name of a node or a pod.

`)
	rows(&b, controllerTable[:])
	b.WriteString(`
Metrics about the cluster have no series before the first lists of the API server are complete. Only the leader reports zones,
scheduled evictions, suspected nodes, the breaker and ` + "`--max-unhealthy`" + `. Their sum over replicas is right. For nodes, pods and
renewals it is not.
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
