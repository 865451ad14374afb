// Package checkpoint keeps what must survive a restart of the agent in one file.
//
// Duties and invariants:
//
//   - A write is atomic: a reader finds the state before or after it, never a
//     part. Nobody waits for it: a saver of its own writes the latest state.
//   - [Sections] have one owner each; nobody sees another's. A section that is
//     not known any more is kept.
//   - The file says its version and the boot it belongs to. A state of another
//     boot is not used: what was short of memory then is not now.
//   - A state of an older version is migrated, and of a later one what is known is
//     used: an upgrade loses nothing.
//   - Ages survive a time of day that is set: times refer to the time since boot.
//   - A damaged file is set aside under another name and said, not fatal.
package checkpoint
