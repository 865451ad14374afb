package taints

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Change is what a node's taints lack and have too much, both in the order of
// their keys. Taints to remove are meant by key and effect, whatever their value.
type Change struct{ Add, Remove []model.Taint }

// Empty reports whether there is nothing to do.
func (c *Change) Empty() bool { return len(c.Add)+len(c.Remove) == 0 }

// scheduling is the table of taints that keep new pods away, in the order of
// their keys, with what calls for each
// (kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration).
var scheduling = [...]struct {
	key       string
	condition model.ConditionType
	status    model.Status
	cordoned  bool // wanted while the node is unschedulable; no condition is asked
}{
	{key: model.KeyDiskPressure, condition: model.DiskPressure, status: model.True},
	{key: model.KeyMemoryPressure, condition: model.MemoryPressure, status: model.True},
	{key: model.KeyNetworkUnavailable, condition: model.NetworkUnavailable, status: model.True},
	{key: model.KeyNotReady, condition: model.Ready, status: model.False},
	{key: model.KeyPIDPressure, condition: model.PIDPressure, status: model.True},
	{key: model.KeyUnreachable, condition: model.Ready, status: model.Unknown},
	{key: model.KeyUnschedulable, cordoned: true},
}

// Scheduling compares the NoSchedule taints that follow from a node's conditions,
// and from whether it is cordoned, with those that it has. A new one is there since
// now. It takes no token: these taints evict no pod. Without a change it allocates
// nothing.
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

// find is the node's taint of that key and effect, nil without one.
func find(n *model.Node, key string, effect model.Effect) *model.Taint {
	for i := range n.Taints {
		if n.Taints[i].Is(key, effect) {
			return &n.Taints[i]
		}
	}
	return nil
}
