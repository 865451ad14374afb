// Package reload applies changes of a configuration file to a running program, and reports those that it
// refuses.
//
// Duties and invariants:
//
//   - A change applies as a whole or not at all. The configuration in force is always one that was
//     written as one content of the file, with the flags that override it.
//   - A content is considered when two successive polls have read the same: a file that is being
//     written is not. The file may be a link that is replaced, as in a mounted ConfigMap.
//   - A change that is not valid, or of an option that only a restart applies, is refused. It is logged
//     once, and the previous configuration stays in force. A file that is gone, cannot be read,
//     or is no regular file, changes nothing either.
//   - A poll reads a bounded amount and waits for no writer. One goroutine polls; the program adopts an
//     accepted configuration in its own time, and any goroutine may read the state.
package reload
