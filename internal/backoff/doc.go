// Package backoff computes the delay between attempts that fail. It has no state and no clock:
// its caller counts failures and sets timers.
package backoff
