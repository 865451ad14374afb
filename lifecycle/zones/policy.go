package zones

import "plimsoll.dev/plimsoll/lifecycle/model"

// Policy has the rates for lost nodes of a zone, in nodes per second. Rates are finite; 0 stops.
type Policy struct {
	Rate          float64 // in a Normal zone
	SecondaryRate float64 // in a large zone with PartialDisruption
	FullRate      float64 // in a zone with FullDisruption while another one is not; below 0: as Rate
	LargeZone     int     // a zone with more nodes than this is large
	Unhealthy     float64 // the minimum share for partial disruption, 0 < share <= 1
}

// State is the disruption of a zone.
type State uint8

// The states.
const (
	Normal State = iota
	PartialDisruption
	FullDisruption
)

var stateNames = [...]string{"Normal", "PartialDisruption", "FullDisruption"}

// String returns the state's name in metrics and logs.
func (s State) String() string { return stateNames[s] }

// Change is a change of a zone's state or rate.
type Change struct {
	Place model.Place
	State State
	Rate  float64
	// The previous values. They are Normal and Policy.Rate for the First evaluation of the zone,
	// which is always reported.
	WasState State
	WasRate  float64
	First    bool
}

// toleratedUnready is the number of unready nodes that is no partial disruption at any share.
const toleratedUnready = 2

// state returns the state of a zone with the given numbers of counted nodes. A zone without any
// is Normal.
func (p *Policy) state(ready, unready int) State {
	switch {
	case ready == 0 && unready > 0:
		return FullDisruption
	case unready > toleratedUnready && float64(unready)/float64(ready+unready) >= p.Unhealthy:
		return PartialDisruption
	}
	return Normal
}

// rate returns the rate of a zone with the given number of counted nodes. The argument all means
// that every zone is fully disrupted: the controller itself is then more likely to be cut off.
func (p *Policy) rate(s State, size int, all bool) float64 {
	switch {
	case all:
		return 0
	case s == FullDisruption && p.FullRate >= 0:
		return p.FullRate
	case s == PartialDisruption && size > p.LargeZone:
		return p.SecondaryRate
	case s == PartialDisruption:
		return 0
	}
	return p.Rate
}
