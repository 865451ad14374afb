package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/internal/cri"
)

// errSilent ends a round: what did not answer once would be waited for again and
// again.
var errSilent = errors.New("the container runtime does not answer: see whether it is overloaded or hangs; what is left is tried again")

// ask makes a call of the runtime that answers something.
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

// do makes a call that removes or stops something. What is gone already was
// removed by somebody else, which is as good.
func (c *Collector) do(ctx context.Context, call func(context.Context, string) error, id string) error {
	_, err := ask(ctx, c, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx, id) })
	if errors.Is(err, cri.ErrNotFound) {
		return nil
	}
	return err
}

// ends reports whether an error leaves no hope for the next call.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errSilent) || errors.Is(err, errUnmeasured) || errors.Is(err, cri.ErrUnavailable)
}

// faults are what went wrong with single things while others went on.
type faults struct {
	errs []error
	more int
}

// told is how many faults are told in full: an event has no room for all.
const told = 3

func (f *faults) add(err error) {
	switch {
	case err == nil:
	case len(f.errs) < told:
		f.errs = append(f.errs, err)
	default:
		f.more++
	}
}

// err is nil if nothing went wrong.
func (f *faults) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return f
}

// Error is one line.
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
