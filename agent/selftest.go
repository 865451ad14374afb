package agent

import (
	"context"
	"fmt"
	"log/slog"
)

// Check is one permission or file that the agent needs, tried at start.
type Check struct {
	What   string // subject of a sentence, such as "killing a process through its pidfd"
	Try    func(context.Context) error
	Remedy string // what an operator can do about it
	Loss   string // what the agent can not do without it
}

// SelfTest runs every check and logs failures, with their remedy and the loss of function. The
// agent runs with the remaining functions. SelfTest returns the number of failed checks.
func SelfTest(ctx context.Context, log *slog.Logger, checks []Check) (missing int) {
	for _, c := range checks {
		if err := c.Try(ctx); err != nil {
			missing++
			log.Warn(fmt.Sprintf("Self-test failed: %s does not work", c.What), "error", err, "consequence", c.Loss, "remedy", c.Remedy)
			continue
		}
		log.Info(fmt.Sprintf("Self-test passed: %s works", c.What))
	}
	return missing
}
