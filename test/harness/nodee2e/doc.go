// Nodee2e runs the eviction specs of Kubernetes' own node tests in a virtual machine (package
// test/harness/vm): with the kubelet alone, and with Plimsoll at the thresholds of the spec.
//
//	nodee2e suite [-mode kubelet|plimsoll] [-agent FLAG]… [SPEC…]   on this machine: a virtual machine for each spec
//	nodee2e node -mode MODE [-agent FLAG]… SPEC                     in the machine
//	nodee2e kubelet FLAG…                                           in the machine, in place of the kubelet
//
// Duties and invariants:
//
//   - The binary of the tests is upstream's. Its waits are longer (test/harness/components), its
//     assertions are unchanged. It starts etcd, the API server and the kubelet in the machine.
//   - The tests write the kubelet's configuration file and restart the kubelet. In mode plimsoll the
//     kubelet's command is this program: `plimsoll import-kubelet-config` divides that file, as
//     docs/explanation/beside-a-kubelet.md recommends. The agent, in its own systemd unit
//     (deploy/plimsoll-agent.service), evicts at the thresholds of the spec. The kubelet reports
//     pressure, and evicts at half of them. For the limit of all pods it comes first.
//   - The tests read the kubelet's effective configuration and write it back with changes. What an
//     earlier division added is removed before the next one ([original]).
//   - Images are made here and served by a registry in the machine, under the names of the tests.
//     The images that only have to be removable consist of empty files.
//   - A result is the state that the tests report of a spec that ran, never the lack of an error. A
//     machine without one ends the suite, and adds no line to the results.
package main
