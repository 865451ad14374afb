package model

import "time"

// A Pod is a pod that is bound to a node.
type Pod struct {
	Namespace, Name string
	UID             string
	Node            string // name of the node that it is bound to
	Created         time.Time
	Tolerations     []Toleration // shared by pods that have the same
	Daemon          bool         // a DaemonSet controls it
	Finished        bool         // in phase Succeeded or Failed
	Deleting        bool         // it has a deletionTimestamp
	Ready           bool         // its condition Ready is True
	Asked           *Request     // the agent on its node asks for a soft eviction; nil: it does not
	Evicted         *time.Time   // it has failed and bears the mark that the agent on its node evicted it, since then; nil: not so
}

// A Request is that of an agent for a soft eviction.
type Request struct {
	Cause        string    // the signal, by name
	GraceSeconds int64     // at least 1
	Since        time.Time // when it was asked for
}

// Key is namespace/name.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }
