package model

import "time"

// Pod is a pod bound to a node.
type Pod struct {
	Namespace, Name string
	UID             string
	Node            string // name of its node
	Created         time.Time
	Tolerations     []Toleration // shared by pods with the same ones
	Daemon          bool         // controlled by a DaemonSet
	Finished        bool         // in phase Succeeded or Failed
	Deleting        bool         // with a deletionTimestamp
	Ready           bool         // with a condition Ready of True
	Requested       *Request     // request of the agent on its node for a soft eviction; nil: none
	Evicted         *time.Time   // time of the eviction mark of a failed pod, set by the agent on its node; nil: none
}

// Request is a request of an agent for a soft eviction.
type Request struct {
	Cause        string    // name of the signal
	GraceSeconds int64     // at least 1
	Since        time.Time // time of the request
}

// Key returns namespace/name.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }
