package podstatus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Request is a soft eviction that an agent requests by a condition of the pod.
type Request struct {
	Namespace string
	Name      string
	UID       string
	// Cause is the name of the signal.
	Cause              string
	GracePeriodSeconds int64     // at least 1, at most a year
	Since              time.Time // whole seconds, UTC
}

// Bounds of accepted requests.
const (
	maxGrace = 365 * 24 * 3600 // s
	maxUID   = 128             // bytes
)

// parseGrace reads seconds, in their only accepted notation.
func parseGrace(text string) (int64, error) {
	grace, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(grace, 10) != text {
		return 0, fmt.Errorf("a grace period of %q: not a number of seconds", text)
	}
	return grace, nil
}

// check returns the first fault of a request, from whatever source.
func (r *Request) check() error {
	if faults := validation.IsDNS1123Label(r.Namespace); len(faults) > 0 {
		return fmt.Errorf("namespace %q: %s", r.Namespace, faults[0])
	}
	if faults := validation.IsDNS1123Subdomain(r.Name); len(faults) > 0 {
		return fmt.Errorf("pod name %q: %s", r.Name, faults[0])
	}
	if r.UID == "" || len(r.UID) > maxUID || strings.Trim(r.UID, "0123456789abcdefABCDEF-") != "" {
		return fmt.Errorf("uid %q: not one that an API server gives", r.UID)
	}
	if _, err := signals.Parse(r.Cause); err != nil {
		return fmt.Errorf("cause: %w", err)
	}
	if r.GracePeriodSeconds < 1 || r.GracePeriodSeconds > maxGrace {
		return fmt.Errorf("a grace period of %d s: must be from 1 to %d", r.GracePeriodSeconds, maxGrace)
	}
	return nil
}
