package main

import "errors"

// A result is the outcome of the demo for other programs.
type result struct {
	Evicted          string   `json:"evicted"`
	Survivors        []string `json:"survivors"`
	Lost             []string `json:"lost,omitempty"` // ended besides the evicted pod
	OOMKills         int64    `json:"kernelOOMKills"`
	ThresholdToCheck *float64 `json:"thresholdToCheckMillis,omitempty"` // the check that decided
	ThresholdToExit  *float64 `json:"thresholdToExitMillis,omitempty"`
	Exit             float64  `json:"exitMillis"` // from that check until no process remained
	AvailableAfter   int64    `json:"availableAfterBytes"`
	Rate             string   `json:"rate"`
	Limit            string   `json:"limit"`
}

// verdict returns an error if another pod than the leaking one ended, or if the
// kernel's OOM killer ended one.
func (r *result) verdict(leaky string) error {
	switch {
	case r.OOMKills > 0:
		return errors.New("the kernel's OOM killer was faster than the agent")
	case r.Evicted != leaky || len(r.Lost) > 0:
		return errors.New("another pod than the leaking one ended")
	}
	return nil
}
