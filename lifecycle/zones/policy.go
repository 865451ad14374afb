package zones

import "plimsoll.dev/plimsoll/lifecycle/model"

// A Policy is how fast lost nodes of a zone are dealt with, in nodes a second.
// Rates are finite; 0 stops.
type Policy struct {
	Rate          float64 // in a Normal zone
	SecondaryRate float64 // in a large zone with PartialDisruption
	FullRate      float64 // in a zone with FullDisruption while another has none; below 0: as Rate
	LargeZone     int     // a zone with more nodes than this is large
	Unhealthy     float64 // the share, 0 < share <= 1, from which a zone is partially disrupted
}

// A State is how disrupted a zone is.
type State uint8

// The states.
const (
	Normal State = iota
	PartialDisruption
	FullDisruption
)

var stateNames = [...]string{"Normal", "PartialDisruption", "FullDisruption"}

// String is the state's name in metrics and logs.
func (s State) String() string { return stateNames[s] }

// A Change is a zone whose state or rate is no longer what it was.
type Change struct {
	Place model.Place
	State State
	Rate  float64
	// What they were; Normal and Policy.Rate if it is the First time that the zone
	// is looked at, which is told in any case.
	WasState State
	WasRate  float64
	First    bool
}

// fewest not ready are no disruption of a part, whatever their share.
const fewest = 2

// state is that of a zone with so many nodes that count. Without any, nothing is
// known against it.
func (p *Policy) state(ready, unready int) State {
	switch {
	case ready == 0 && unready > 0:
		return FullDisruption
	case unready > fewest && float64(unready)/float64(ready+unready) >= p.Unhealthy:
		return PartialDisruption
	}
	return Normal
}

// rate is that of a zone with so many nodes that count; all says that every zone
// is fully disrupted: then it is more likely that we are the one cut off.
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
