// Package config defines the configuration of the controller and compiles it into
// the policies of its decisions. Options that kube-controller-manager has, or had,
// have its names, defaults and meanings.
//
// Duties and invariants:
//
//   - What kube-controller-manager accepts is accepted. What is allowed but rarely
//     intended is a warning.
//   - It imports nothing of the agent.
package config
