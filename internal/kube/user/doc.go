// Package user connects a command to the cluster of its user, as kubectl does: by the flags, the
// environment and the files that kubectl reads.
//
// Duties and invariants:
//
//   - The flags are those of kubectl, by its library k8s.io/cli-runtime.
//   - Without a configured server there is none: neither localhost, nor one from a shell's environment.
//   - Nothing here depends on the operating system.
package user
