package simulate

import (
	"fmt"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Bounds of the pods that are followed through a recording of another origin, beside [recording.MaxTracked].
const (
	// maxTrackedBytes bounds the pods with the parts of their usage. 500 ordinary pods have 2 MB.
	maxTrackedBytes = 32 << 20
	// partBytes is the size of the usage of a container or of a volume in memory, rounded up.
	partBytes = 160
)

// Errors of a recording with more pods than are followed.
var (
	ErrTooManyPods = fmt.Errorf("the recording has more than %d pods at once: export a shorter time", recording.MaxTracked)
	ErrLargePods   = fmt.Errorf("the pods of the recording, with their usage, have more than %d MiB at once: export a shorter time", maxTrackedBytes>>20)
)
