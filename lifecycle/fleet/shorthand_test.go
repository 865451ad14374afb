package fleet_test

import "plimsoll.dev/plimsoll/lifecycle/fleet"

type fleetAction = fleet.Action

const taintKind = fleet.Taint
