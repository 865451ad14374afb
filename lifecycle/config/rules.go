package config

import (
	"time"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// fewestRenewals is how many renewals should fall into a grace period: a node is
// silent when all of them were missed. With fewer, a single lost one is enough.
const fewestRenewals = 3

// frozenConnection is how long a kubelet may need to notice that its connection
// to the API server is dead: 30 s until it asks for a sign of life, 15 s until it
// gives up.
const frozenConnection = 45 * time.Second

// validate notes what is wrong beyond the form of single values.
func (c *Controller) validate(faults *strictyaml.Faults) {
	c.derive()
	c.validateElection(faults)
	c.Endpoints.Validate(c.Where, faults)
	c.validateGates(faults)
}

// derive puts in what follows from other options.
func (c *Controller) derive() {
	if !c.Given("taintBasedEvictions") {
		c.TaintBasedEvictions = c.TaintEvictions
	}
}

// jitter is how much longer than its retry period an election may wait.
const jitter = 1.2

func (c *Controller) validateElection(faults *strictyaml.Faults) {
	if !c.LeaderElect {
		return
	}
	if c.RenewDeadline >= c.LeaseDuration {
		c.tooShort(faults, "leaderElectLeaseDuration", c.LeaseDuration, "must be above leaderElectRenewDeadline, which is %s, or two could lead at once", c.RenewDeadline)
	}
	if float64(c.RenewDeadline) <= jitter*float64(c.RetryPeriod) {
		c.tooShort(faults, "leaderElectRenewDeadline", c.RenewDeadline, "must be above %.1f times leaderElectRetryPeriod, which is %s, or there is no second try", jitter, c.RetryPeriod)
	}
}

func (c *Controller) tooShort(faults *strictyaml.Faults, field string, value time.Duration, format string, args ...any) {
	faults.Add(c.Where(field), value.String(), format, args...)
}
