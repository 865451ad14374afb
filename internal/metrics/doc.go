// Package metrics defines the Prometheus metrics of the agent and of the controller.
//
// Duties and invariants:
//
//   - There is one table of metrics for each of the two. The instruments and docs/reference/metrics.md are
//     generated from it. Names and labels with the meaning of the kubelet's are the kubelet's
//     behind our prefix. Those of the replaced controllers are unchanged.
//   - The registry belongs to the package: a library that registers itself globally adds nothing to
//     the served metrics.
//   - Recording never blocks. The loop's recording at every check uses only atomics, under labels
//     prepared before, and does not allocate. A scrape uses its own time.
//   - The configuration bounds the number of series: no label has the name of a pod, a node, an
//     image or an error as its value.
//   - Unknown values have no series. A signal that could not be observed is never shown as 0, nor
//     with its previous value.
package metrics
