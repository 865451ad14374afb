package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/internal/cri"
)

// errSilent ends a round: each further call would wait for the unresponsive runtime again.
var errSilent = errors.New("the container runtime does not answer: see whether it is overloaded or hangs; what is left is tried again")

// ask makes a call of the runtime that returns a value.
func ask[T any](ctx context.Context, c *Collector, call func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
	defer cancel()
	answer, err := call(within)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return answer, fmt.Errorf("%w: %w", errSilent, err)
	}
	return answer, err
}

// do makes a call that removes or stops an object. The absence of the object is a success.
func (c *Collector) do(ctx context.Context, call func(context.Context, string) error, id string) error {
	_, err := ask(ctx, c, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx, id) })
	if errors.Is(err, cri.ErrNotFound) {
		return nil
	}
	return err
}

// ends reports whether after an error further calls are useless.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errSilent) || errors.Is(err, errUnmeasured) || errors.Is(err, cri.ErrUnavailable)
}

// faults are the errors of single objects; the others were processed.
type faults struct {
	errs []error
	more int
}

// maxReportedErrors is the number of errors reported in full: an event has no room for all.
const maxReportedErrors = 3

func (f *faults) add(err error) {
	switch {
	case err == nil:
	case len(f.errs) < maxReportedErrors:
		f.errs = append(f.errs, err)
	default:
		f.more++
	}
}

// err returns nil without faults.
func (f *faults) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return f
}

// Error returns one line.
func (f *faults) Error() string {
	var b strings.Builder
	for i, err := range f.errs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	if f.more > 0 {
		fmt.Fprintf(&b, "; and %d more", f.more)
	}
	return b.String()
}

func (f *faults) Unwrap() []error { return f.errs }
