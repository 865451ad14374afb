// Package metrics counts and measures what the agent and the controller do, for
// Prometheus.
//
// Duties and invariants:
//
//   - There is one table of metrics for each of the two. The instruments are made
//     of it, and so is docs/reference/metrics.md; names and labels that mean what the
//     kubelet's do are the kubelet's behind our prefix, and those of the
//     controllers that ours replaces are theirs.
//   - The registry is the package's own: a library that registers itself
//     globally adds nothing to what is served.
//   - Recording waits for nobody. What the loop records at every look touches
//     atomics only, under labels that were prepared before, and allocates
//     nothing; a scrape works on its own time.
//   - The number of series is bounded by the configuration: no label holds the
//     name of a pod, a node, an image or an error.
//   - What is not known has no series. A signal that could not be observed is
//     never shown as 0, nor with the value it had before.
package metrics
