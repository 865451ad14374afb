package taints

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Change is the difference between a node's taints and the desired ones, both in the order of
// their keys. Taints to remove are identified by key and effect, with any value.
type Change struct{ Add, Remove []model.Taint }

// Empty reports whether there is nothing to change.
func (c *Change) Empty() bool { return len(c.Add)+len(c.Remove) == 0 }

// scheduling is the table of NoSchedule taints, in the order of their keys, with the condition
// that requires each (kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration).
var scheduling = [...]struct {
	key       string
	condition model.ConditionType
	status    model.Status
	cordoned  bool // wanted while the node is unschedulable, whatever its conditions
}{
	{key: model.KeyDiskPressure, condition: model.DiskPressure, status: model.True},
	{key: model.KeyMemoryPressure, condition: model.MemoryPressure, status: model.True},
	{key: model.KeyNetworkUnavailable, condition: model.NetworkUnavailable, status: model.True},
	{key: model.KeyNotReady, condition: model.Ready, status: model.False},
	{key: model.KeyPIDPressure, condition: model.PIDPressure, status: model.True},
	{key: model.KeyUnreachable, condition: model.Ready, status: model.Unknown},
	{key: model.KeyUnschedulable, cordoned: true},
}

// Scheduling compares a node's NoSchedule taints with those that follow from its conditions and
// from whether it is cordoned. A new one has the time now. It needs no token: these taints evict
// no pod. Without a change it allocates nothing.
func Scheduling(n *model.Node, now time.Time) (c Change) {
	for i := range scheduling {
		row := &scheduling[i]
		wanted := n.Conditions[row.condition].Status == row.status
		if row.cordoned {
			wanted = n.Unschedulable
		}
		if has := find(n, row.key, model.NoSchedule) != nil; has == wanted {
			continue
		}
		taint := model.Taint{Key: row.key, Effect: model.NoSchedule}
		if wanted {
			taint.Added = now
			c.Add = append(c.Add, taint)
		} else {
			c.Remove = append(c.Remove, taint)
		}
	}
	return c
}

// find returns the node's taint of that key and effect, or nil.
func find(n *model.Node, key string, effect model.Effect) *model.Taint {
	for i := range n.Taints {
		if n.Taints[i].Is(key, effect) {
			return &n.Taints[i]
		}
	}
	return nil
}
