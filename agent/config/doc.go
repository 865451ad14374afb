// Package config defines the configuration of the agent and compiles it into the
// policies of its decisions. Options that the kubelet has, too, have its names,
// defaults and meanings.
//
// Duties and invariants:
//
//   - A valid configuration compiles to valid policies; every fault is reported
//     when the configuration is loaded.
//   - It imports nothing of the controller.
package config
