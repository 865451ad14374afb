// Barekubelet runs a real kubelet on a machine whose pods are bare: cgroups with the names that a kubelet
// gives them, processes that another program has started, and a manifest for each. So the benchmark of node
// pressure measures the kubelet's evictions with the same pods as those of any other contestant.
//
//	barekubelet -kubelet FILE -config FILE -manifests DIRECTORY -pods DIRECTORY -dir DIRECTORY
//
// Duties and invariants:
//
//   - The kubelet's binary and configuration are unmodified. It watches, ranks and evicts by itself.
//   - Its API server is a small one in this process: it has the pods of the manifests, and stores what the
//     kubelet writes. Its container runtime is another one: a container runs as long as its pod has
//     processes. To stop one sends SIGTERM to them, and SIGKILL after the kubelet's grace period.
//   - It starts and ends no process by itself, and decides nothing.
//   - It prints "every pod runs" once the kubelet has started all pods of the manifests, and ends with the
//     kubelet.
package main
