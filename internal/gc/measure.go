package gc

import (
	"context"
	"errors"
	"fmt"
)

// errUnmeasured ends a sweep: without a measurement no further object is removed.
var errUnmeasured = errors.New("the image filesystem can not be measured")

// measure returns the space of the image file system in bytes. Returns [errUnmeasured] if it cannot
// be read, or is implausible.
func (c *Collector) measure(ctx context.Context) (available, capacity int64, err error) {
	within, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
	defer cancel()
	available, capacity, err = c.disk(within)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %w", errUnmeasured, err)
	case capacity <= 0:
		err = fmt.Errorf("%w: invalid capacity %d: check the mount of the image filesystem", errUnmeasured, capacity)
		c.reporter.Event("InvalidDiskCapacity", err.Error())
		return 0, 0, err
	case available < 0:
		return 0, 0, fmt.Errorf("%w: %d bytes available can not be right", errUnmeasured, available)
	}
	return available, capacity, nil
}
