// Package user connects a command to the cluster of its user, as kubectl does: by the flags, the
// environment and the files that kubectl reads.
//
// Duties and invariants:
//
//   - The flags are those of client-go's clientcmd, with kubectl's names. The namespace is that of the
//     agents, whatever the context has.
//   - Without a configured server there is none: neither localhost, nor one from a shell's environment.
//   - Nothing here depends on the operating system.
package user
