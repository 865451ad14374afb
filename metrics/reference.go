package metrics

import (
	"fmt"
	"strings"
)

// Reference is docs/metrics.md, made from the table of metrics so that it can
// not drift from the program.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics of the agent

<!-- Made from the table in metrics/table.go by go test ./metrics -update: do not edit. -->

Served as text under ` + "`/metrics`" + ` ([operations.md](operations.md#endpoints-and-metrics) says where). Durations are in
seconds. Where a metric means what one of the kubelet's means it has that name behind our prefix, the same labels and
the same buckets. No label holds the name of a pod or an image: the decision log does.

| metric | kind | labels | meaning |
|-|-|-|-|
`)
	for i := range table {
		m := metric(i)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name(), table[m].kind, labelCell(table[m].labels), table[m].help)
	}
	b.WriteString(`
Besides there are the usual ` + "`go_*` and `process_*`" + ` metrics of the agent's own process.

Counters are there at 0 from the start, so that the first event is an increase; the histogram of ages comes with the
first eviction. Signals have series if they have a threshold, and while they are known: ` + "`absent()` and\n`plimsoll_signal_unknown == 1`" + ` find those that are not.
`)
	return b.String()
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
