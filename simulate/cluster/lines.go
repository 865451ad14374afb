package cluster

import (
	"cmp"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// Line is the output of -o json for one action of the controller. Keys not in its kind are
// omitted.
type Line struct {
	At     string   `json:"at"`
	Do     string   `json:"do"`
	Zone   *string  `json:"zone,omitempty"`
	State  string   `json:"state,omitempty"`
	Rate   *float64 `json:"rate,omitempty"` // nodes per second
	Node   string   `json:"node,omitempty"`
	Type   string   `json:"type,omitempty"`
	Status string   `json:"status,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Op     string   `json:"op,omitempty"`
	Pod    string   `json:"pod,omitempty"`
	Key    string   `json:"key,omitempty"`
	Effect string   `json:"effect,omitempty"`
	Value  *string  `json:"value,omitempty"`
	Why    string   `json:"why,omitempty"`

	why string // for text output; empty if the line needs no reason
}

// The kinds of lines, in the order of lines with equal time, node and pod.
const (
	doZone        = "zone"
	doCondition   = "condition"
	doTaint       = "taint"
	doLabel       = "label"
	doPodNotReady = "pod-not-ready"
	doEvict       = "evict"
	doCancel      = "cancel"
	doClearPod    = "clear-pod"
)

var ranks = map[string]int{doZone: 0, doCondition: 1, doTaint: 2, doLabel: 3, doPodNotReady: 4, doEvict: 5, doCancel: 6, doClearPod: 7}

// The changes of a taint, add before remove.
const (
	opAdd    = "add"
	opRemove = "remove"
)

// compare orders the lines of one time: zones first, then by node and pod, and by kind.
func compare(a, b Line) int {
	return cmp.Or(
		cmp.Compare(min(ranks[a.Do], 1), min(ranks[b.Do], 1)),
		cmp.Compare(a.zone(), b.zone()),
		cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(ranks[a.Do], ranks[b.Do]),
		cmp.Compare(a.Type, b.Type),
		cmp.Compare(a.Key, b.Key),
		cmp.Compare(a.Op, b.Op),
		cmp.Compare(a.Effect, b.Effect),
	)
}

func (l *Line) zone() string {
	if l.Zone == nil {
		return ""
	}
	return *l.Zone
}

// WriteJSON runs the scenario and writes one JSON object per line. It returns an error, and
// writes nothing, if the run finds faults in the file. It also returns errors of w.
func (s *Scenario) WriteJSON(w io.Writer) error {
	chapters, err := s.run()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, c := range chapters {
		for i := range c.lines {
			if err := encoder.Encode(&c.lines[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// seconds prints a time since the start in seconds, to the millisecond.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', -1, 64) + "s"
}
