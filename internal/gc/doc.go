// Package gc gives back what nobody needs before a pod has to die for it:
// dead containers, sandboxes without containers, images without containers, and
// the logs of pods that are gone. It does so now and then, by the kubelet's
// policies, and under pressure until there is enough.
//
// What goes, and in which order, is decided by plain functions over values
// (containers.go, sandboxes.go, images.go); the rest lists, removes and measures.
//
// Duties and invariants:
//
//   - What is not known to be waste stays: a container that runs or is about to
//     start, the newest sandbox of a pod, an image that any container names
//     (dead ones and image volumes included), that is pinned, kept by
//     [Options.Keep], or was first seen less than the minimum TTL ago. As long as
//     [Owners] are not complete, every pod counts as active.
//   - Containers are listed again right before an image is removed: runtimes
//     remove images that are in use.
//   - What was freed is measured on the filesystem, never summed from sizes. A
//     runtime that frees late is waited for, with a bound.
//   - A relief ends as soon as there is enough, by a measurement made after
//     each removal. What is measured is the caller's business.
//   - One works at a time: whoever holds the one token of turns.go. A lock with
//     a token rather than a goroutine with requests, because a relief runs on
//     its caller's context and hands over its result by returning; a token
//     rather than a mutex, because waiting for it ends with that context. A
//     periodic round gives way to a relief at once.
//   - Every call of the runtime has a timeout. One that does not answer ends the
//     round with an error that says so. What was seen of images is kept over
//     rounds that fail.
package gc
