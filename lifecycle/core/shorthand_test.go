package core_test

import "plimsoll.dev/plimsoll/lifecycle/core"

type fleetAction = core.Action

const taintKind = core.Taint
