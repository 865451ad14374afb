package why

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Standing is where a pod without a recorded eviction stands, as far as the cluster knows it.
type Standing struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Phase    string `json:"phase"`
	Priority int32  `json:"priority"`
	// Protection is why the pod is never evicted, as far as its object has that. The configuration of the agent may
	// protect further pods.
	Protection string `json:"protection,omitempty"`
	// Requested describes a pending request for a soft eviction.
	Requested string             `json:"requested,omitempty"`
	Agent     string             `json:"agent,omitempty"` // state of the node's agent
	Resources []ResourceStanding `json:"resources"`
	// Unknown is what could not be read, each with its cause.
	Unknown []string `json:"unknown,omitempty"`
}

// ResourceStanding is where a pod stands for the signals of one resource.
type ResourceStanding struct {
	Resource string   `json:"resource"`
	Signals  []string `json:"signals"`
	Pressure
	Request *int64     `json:"request,omitempty"` // nil: pods cannot request it
	Last    *LastPlace `json:"last,omitempty"`    // nil: not recorded
}

// Pressure is a pressure condition of a node.
type Pressure struct {
	Status string    `json:"pressure"` // True, False or Unknown
	Since  time.Time `json:"since,omitzero"`
}

// LastPlace is the place of a pod at an eviction of another one.
type LastPlace struct {
	Time  time.Time         `json:"time"`
	Cause string            `json:"cause"`
	Pods  int               `json:"pods"` // number of ranked pods
	Place decisionlog.Place `json:"place"`
}

// Observed is what the cluster knows of a pod. The zero value of a pressure is unknown.
type Observed struct {
	Pod       signals.Pod
	Phase     string
	Requested string
	Agent     string
	Pressures [signals.ConditionCount]Pressure
	Records   []decisionlog.Record // of the pod's node, the oldest first
	Unknown   []string
}

// Stand returns where a pod stands.
func Stand(o *Observed) *Standing {
	s := &Standing{Pod: o.Pod.Key(), UID: o.Pod.UID, Phase: o.Phase, Priority: o.Pod.Priority, Protection: o.Pod.Protection.String(),
		Requested: o.Requested, Agent: o.Agent, Unknown: o.Unknown}
	for _, r := range []signals.Resource{signals.Memory, signals.EphemeralStorage, signals.InodeCount, signals.PIDCount} {
		rs := ResourceStanding{Resource: resourceNames[r], Last: lastPlace(&o.Pod, r, o.Records)}
		for sig := range signals.All {
			if d := sig.Definition(); d.Resource == r {
				rs.Signals, rs.Pressure = append(rs.Signals, d.Name), o.Pressures[d.Condition]
			}
		}
		if rs.Status == "" {
			rs.Status = "Unknown"
		}
		switch r {
		case signals.Memory:
			rs.Request = number(o.Pod.MemoryRequest.Value)
		case signals.EphemeralStorage:
			rs.Request = number(o.Pod.StorageRequest.Value)
		}
		s.Resources = append(s.Resources, rs)
	}
	return s
}

func number(a signals.Amount) *int64 { n := int64(a); return &n }

// lastPlace returns the place of a pod at the latest eviction for a resource that has it; nil without one.
func lastPlace(pod *signals.Pod, of signals.Resource, records []decisionlog.Record) (last *LastPlace) {
	for i := range records {
		c := records[i].Choice
		if c == nil {
			continue
		}
		if s, err := signals.Parse(c.Cause); err != nil || s.Definition().Resource != of {
			continue
		}
		for j := range c.Places {
			if p := &c.Places[j]; p.UID == pod.UID && p.Pod == pod.Key() {
				last = &LastPlace{records[i].Time, c.Cause, c.Pods, *p}
			}
		}
	}
	return last
}

// onlyAgent is what no object of the cluster has.
const onlyAgent = "Its usage and its place among the pods of the node now: the agent measures both when it has to choose, and records them with the next eviction there."

// onlyConfigured is what no object has either.
const onlyConfigured = "Whether the agent's configuration protects it, by its namespace or its annotations, and whether limits on evictions apply."

// text returns the standing for people.
func (s *Standing) text(node string) string {
	var b strings.Builder
	where := "is on node " + node
	if node == "" {
		where = "is on no node yet"
	}
	fmt.Fprintf(&b, "Pod %s %s. It has not been evicted, as far as that is recorded.\n\n", s.Pod, where)
	for _, line := range [][2]string{
		{"UID", s.UID}, {"Phase", s.Phase}, {"Priority", fmt.Sprint(s.Priority)}, {"Evicted", exemptText(s.Protection)}, {"Request", s.Requested}, {"Agent", s.Agent},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%-9s %s\n", line[0]+":", line[1])
		}
	}
	for i := range s.Resources {
		s.Resources[i].write(&b)
	}
	b.WriteString("\nNot known to the cluster:\n  - " + onlyAgent + "\n  - " + onlyConfigured + "\n")
	for _, u := range s.Unknown {
		b.WriteString("  - " + u + "\n")
	}
	return b.String()
}

func exemptText(protection string) string {
	if protection == "" {
		return ""
	}
	return "never: " + protection
}

// write writes where the pod stands for the signals of a resource.
func (r *ResourceStanding) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", strings.Join(r.Signals, ", "))
	pressure := r.Status
	if !r.Since.IsZero() {
		pressure += " since " + r.Since.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(b, "  pressure of the node:  %s\n", pressure)
	if r.Request != nil {
		request := "none: any usage is above it, and such pods are evicted first"
		if *r.Request > 0 {
			request = amount(*r.Request, signals.UnitBytes) + ": pods above theirs are evicted first"
		}
		fmt.Fprintf(b, "  request of the pod:    %s\n", request)
	}
	place := "not recorded"
	if l := r.Last; l != nil {
		place = fmt.Sprintf("%d of %d for %s at %s: %s", l.Place.Place, l.Pods, l.Cause, l.Time.UTC().Format(time.RFC3339), PlaceText(&l.Place))
	}
	fmt.Fprintf(b, "  last recorded place:   %s\n", place)
}
