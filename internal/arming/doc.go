// Package arming decides whether an agent may act, by the words of those who may
// say so: a person on the node, the cluster for all nodes or for this one, and
// the flag that the agent was started with.
//
// Duties and invariants:
//
//   - It is pure: who listens for words, looks for the file and asks the doctor
//     is elsewhere, and so is what being disarmed means.
//   - Words that stop are stronger than words that start, wherever they are said.
//     No word that is added to others makes an agent act, unless it says so.
//   - What can not be read, or was not found out, is no permission.
//   - Being told to act is never less than not being told anything: where the flag
//     lets an agent act, the doctor can not take that back.
package arming
