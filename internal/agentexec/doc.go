// Package agentexec runs commands of plimsoll in the pod of a node's agent, by the exec subresource of the API server.
//
// Duties and invariants:
//
//   - The answer of a pod is not trusted. Lines, messages and the whole answer are bounded, and so is the time without any
//     part of it.
//   - An answer without its end is an error, whatever the connection reports: the end of an export is confirmed by its
//     size, and that of a line by its newline.
//   - Each error names the node, the cause, and what to do.
package agentexec
