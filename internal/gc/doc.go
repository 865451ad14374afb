// Package gc frees disk space before a pod has to be evicted: it removes dead containers, sandboxes
// without containers, images without containers, and the logs of removed pods. It does so
// periodically, by the kubelet's policies, and under pressure until enough space is available.
//
// Pure functions over values select the garbage and its order (containers.go, sandboxes.go,
// images.go); the rest lists, removes and measures.
//
// Duties and invariants:
//
//   - Only known garbage is removed. A container that runs or is about to start remains, and the
//     newest sandbox of a pod. So does an image that any container uses (including dead ones and image
//     volumes), that is pinned, listed by [Options.Keep], or was first seen less than the minimum TTL
//     ago. As long as [Owners] are not complete, every pod counts as active.
//   - Containers are listed again right before an image is removed: runtimes remove images in use.
//   - Freed space is measured on the file system, never summed from sizes. The wait for a runtime
//     that frees late is bounded.
//   - Free ends as soon as enough space is available, by a measurement after each removal. The
//     caller supplies that measurement.
//   - One collection runs at a time: the one with the single token of turns.go. It is a lock with a
//     token instead of a goroutine with requests, because Free runs on its caller's context and
//     returns its result. It is a token instead of a mutex, because the wait for it ends with that
//     context. Free cancels a periodic round immediately.
//   - Every call of the runtime has a timeout. A call without an answer ends the round with an error
//     that names the cause. The sightings of images survive failed rounds.
package gc
