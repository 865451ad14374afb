package oomkill

import (
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Reason describes a kill in one sentence for operators, with the names of all pods.
func (r *Report) Reason() string {
	pod := ""
	if r.Place.Pod != nil {
		pod = " of pod " + r.Place.Pod.Key()
	} else if r.Place.UID != "" {
		pod = " of an unknown pod with UID " + r.Place.UID
	} else if r.Place.Outside() {
		pod = " outside of pods"
	}
	text := r.process() + pod + " was OOM-killed " + r.limit() + r.parties(Party.name)
	if r.Kill.Cause != "" {
		text += ": " + r.Kill.Cause
	}
	return text
}

// Message describes a kill in one sentence for the event of its pod. It has no amount but the limit, so
// that the kills of one cause have one message. Other pods are named only in the same namespace: the
// events of a namespace may be read by persons without access to others.
func (r *Report) Message() string {
	return r.process() + " was OOM-killed " + r.limit() + r.parties(r.nameForPod)
}

func (r *Report) process() string {
	text := "A process"
	if r.Kill.Process.PID != 0 {
		text = `Process "` + strings.ReplaceAll(r.Kill.Process.Name, `"`, "'") + `"`
	}
	if r.Place.Container != "" {
		text += " of container " + r.Place.Container
	}
	return text
}

// limit returns where the memory was exhausted.
func (r *Report) limit() string {
	amount := ""
	if r.Kill.Limit.Known {
		amount = " (" + signals.Format(signals.Amount(r.Kill.Limit.Value), signals.UnitBytes) + ")"
	}
	text := [levels]string{
		ContainerLevel: "at the memory limit of its container" + amount,
		PodLevel:       "at the memory limit of its pod" + amount,
		QoSLevel:       "at the memory limit of all pods of its QoS class" + amount,
		PodsLevel:      "at the memory limit of all pods of the node" + amount,
		NodeLevel:      "because the memory of the node was exhausted" + amount,
	}[r.Place.Level]
	if text == "" {
		return "at a limit that is not known"
	}
	if files := r.Kill.FilesInMemory; files.Known && r.Kill.Used.Known && files.Value > r.Kill.Used.Value/2 {
		text += ", mostly by files in memory (tmpfs) or shared memory"
	}
	return text
}

// parties returns what held and what grew most, with a name for each.
func (r *Report) parties(name func(Party) string) string {
	if r.Place.Level == UnknownLevel || r.Place.Level == ContainerLevel {
		return ""
	}
	held, grew := "it is not clear what held most of it", "what grew most before"
	if r.HeldMost.Known {
		held = name(r.HeldMost) + " held most of it"
	}
	if r.GrewMost.Known {
		grew = name(r.GrewMost) + " grew most before"
	}
	switch {
	case r.HeldMost.Known && r.GrewMost.Known && r.HeldMost.Key() == r.GrewMost.Key():
		return "; " + held + " and grew most before"
	case r.HeldMost.Known && !r.GrewMost.Known:
		return "; " + held
	case r.GrewMost.Known:
		return "; " + held + ", and " + grew
	}
	return "; " + held + " and " + grew
}

// name returns the name of a known party.
func (p Party) name() string {
	switch {
	case p.Pod == nil:
		return "memory outside of pods"
	case p.Container != "":
		return "container " + p.Container
	}
	return "pod " + p.Pod.Key()
}

// nameForPod returns the name of a known party for the event of the killed process's pod.
func (r *Report) nameForPod(p Party) string {
	switch own := r.Place.Pod; {
	case p.Pod == nil || p.Container != "" || own == nil:
		return p.name()
	case p.Pod.UID == own.UID:
		return "this pod"
	case p.Pod.Namespace != own.Namespace:
		return "a pod of another namespace"
	}
	return "pod " + p.Pod.Name
}

// Key returns namespace/name of the pod, with the container if the party is one; "outside of pods" for
// memory of the node, and "unknown".
func (p Party) Key() string {
	switch {
	case !p.Known:
		return "unknown"
	case p.Pod == nil:
		return "outside of pods"
	case p.Container != "":
		return p.Pod.Key() + "/" + p.Container
	}
	return p.Pod.Key()
}
