// Package checkpoint stores the state that must survive a restart of the agent in one file.
//
// Duties and invariants:
//
//   - A write is atomic: a reader gets the state before or after it, never a part. It blocks no
//     caller: a separate goroutine writes the latest state.
//   - Each of the [Sections] has one owner and is invisible to the others. An unknown section is
//     preserved.
//   - The file contains its version and the ID of its boot. A state of another boot is not used:
//     its memory pressure is over.
//   - A state of an older version is migrated. Of a later version the known parts are used: an
//     upgrade loses nothing.
//   - Ages survive a change of the time of day: times refer to the time since boot.
//   - A damaged file is renamed and reported; it is not fatal.
package checkpoint
