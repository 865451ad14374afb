package config

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Limits holds the options that limit evictions.
type Limits struct {
	EvictionsPerHour           int64 // 0: no limit
	MaxIneffectiveEvictions    int64 // in a row; 0: off
	IneffectiveEvictionBackoff time.Duration
	OwnerBackoff               time.Duration // 0: off
	ProtectedNamespaces        []string
	EvictionPolicyNamespaces   []string
}

func newLimits() Limits {
	return Limits{MaxIneffectiveEvictions: 2, IneffectiveEvictionBackoff: 5 * time.Minute, OwnerBackoff: time.Minute}
}

// limitOptions are the options of [Limits].
var limitOptions = []options.Option[Agent]{
	{Field: "evictionsPerHour", Live: true, Flag: "evictions-per-hour", Default: "0", Set: options.Count(func(c *Agent) *int64 { return &c.EvictionsPerHour }),
		Help: "Maximum number of evicted pods within any hour; five times as many while a signal is exhausted. The quota is divided among the namespaces that lost pods within the hour, and a namespace below its share is never limited. 0: no limit."},
	{Field: "maxIneffectiveEvictions", Live: true, Flag: "max-ineffective-evictions", Default: "2", Set: options.Count(func(c *Agent) *int64 { return &c.MaxIneffectiveEvictions }),
		Help: "Consecutive evictions that free less than half of the memory, disk space or processes of their pods before evictions pause. A pod above its request that holds the whole shortage of an exhausted signal is still evicted once usage outside of pods stops growing. 0: never pause."},
	{Field: "ineffectiveEvictionBackoff", Live: true, Flag: "ineffective-eviction-backoff", Default: "5m", Set: options.PositiveDuration(func(c *Agent) *time.Duration { return &c.IneffectiveEvictionBackoff }),
		Help: "First pause after ineffective evictions. It doubles up to 1h while evictions stay ineffective, and ends with the pressure."},
	{Field: "ownerBackoff", Live: true, Flag: "owner-backoff", Default: "1m", Set: options.NonNegativeDuration(func(c *Agent) *time.Duration { return &c.OwnerBackoff }),
		Help: "Time without evictions for the pods of an owner after three of them were evicted within ten minutes. It doubles up to 30m. Does not apply while exhaustion is imminent, or less than half of the threshold is available. 0s: never."},
	{Field: "protectedNamespaces", Flag: "protected-namespaces", Shape: options.List, List: func(c *Agent) *[]string { return &c.ProtectedNamespaces },
		Help: "Namespaces with pods that are never evicted."},
	{Field: "evictionPolicyNamespaces", Flag: "eviction-policy-namespaces", Shape: options.List, List: func(c *Agent) *[]string { return &c.EvictionPolicyNamespaces },
		Help: "Namespaces in which pods may set the annotations plimsoll.dev/eviction-policy (never, last, default) and plimsoll.dev/eviction-priority (-1000 to 1000). *: all namespaces. Permission to create pods in them suffices to shift evictions onto other pods."},
}

// Policy returns the policy of the limiter.
func (r *Limits) Policy() limiter.Policy {
	return limiter.Policy{PerHour: int(r.EvictionsPerHour), MaxIneffective: int(r.MaxIneffectiveEvictions), IneffectiveBackoff: r.IneffectiveEvictionBackoff, OwnerBackoff: r.OwnerBackoff}
}

func (c *Agent) validateLimits(faults *strictyaml.Faults) {
	for _, d := range []struct {
		field     string
		is, limit time.Duration
	}{
		{"ineffectiveEvictionBackoff", c.IneffectiveEvictionBackoff, limiter.MaxIneffectiveBackoff},
		{"ownerBackoff", c.OwnerBackoff, limiter.MaxOwner},
	} {
		if d.is > d.limit {
			faults.Add(c.Where(d.field), d.is.String(), "must be at most %s, up to which it doubles", d.limit)
		}
	}
	if c.MaxIneffectiveEvictions > limiter.MaxIneffectiveLimit {
		faults.Add(c.Where("maxIneffectiveEvictions"), strconv.FormatInt(c.MaxIneffectiveEvictions, 10), "must be at most %d, the number of stored evictions", limiter.MaxIneffectiveLimit)
	}
	for _, l := range []struct {
		field string
		names []string
		every bool
	}{
		{"protectedNamespaces", c.ProtectedNamespaces, false},
		{"evictionPolicyNamespaces", c.EvictionPolicyNamespaces, true},
	} {
		for i, name := range l.names {
			if l.every && name == signals.EveryNamespace {
				continue
			}
			if len(validation.IsDNS1123Label(name)) > 0 {
				faults.Add(fmt.Sprintf("%s[%d]", c.Where(l.field), i), name, "must be the name of a namespace: lower case letters, digits and hyphens, at most 63")
			}
		}
	}
}
