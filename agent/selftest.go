package agent

import (
	"context"
	"fmt"
	"log/slog"
)

// A Check is one right or file that the agent needs, tried at start.
type Check struct {
	What   string // as a sentence's subject, "killing a process through its pidfd"
	Try    func(context.Context) error
	Remedy string // what an operator can do about it
	Loss   string // what the agent can not do without it
}

// SelfTest tries every check and logs what is missing, with its remedy and what
// it costs. The agent runs with what it has; the number of failed checks is
// returned.
func SelfTest(ctx context.Context, log *slog.Logger, checks []Check) (missing int) {
	for _, c := range checks {
		if err := c.Try(ctx); err != nil {
			missing++
			log.Warn(fmt.Sprintf("self-test: %s does not work", c.What), "error", err, "without it", c.Loss, "remedy", c.Remedy)
			continue
		}
		log.Info(fmt.Sprintf("self-test: %s works", c.What))
	}
	return missing
}
