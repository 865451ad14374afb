package agent

import "time"

// OOMKill is the line of the decision log about an OOM kill by the kernel. The agent does not decide
// it. Amounts are in bytes. docs/reference/decision-log.md describes every key.
type OOMKill struct {
	Time     time.Time `json:"time"`
	Decision Verb      `json:"decision"` // OOMKilled
	Reason   string    `json:"reason"`

	Pod       string `json:"pod,omitempty"` // namespace/name, or unknown; absent for a process outside of pods
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Process   string `json:"process,omitempty"` // its name, which the program chooses
	PID       int    `json:"pid,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"` // of the process

	LimitOf       string `json:"limitOf"` // container, pod, qos, pods, node or unknown
	LimitCgroup   string `json:"limitCgroup,omitempty"`
	LimitBytes    *int64 `json:"limitBytes,omitempty"`
	FilesInMemory *int64 `json:"filesInMemoryBytes,omitempty"`

	HeldMost  string `json:"heldMost"` // what held most of the memory below the limit, or unknown
	HeldBytes *int64 `json:"heldBytes,omitempty"`
	GrewMost  string `json:"grewMost"` // what grew most before the kill, or unknown
	GrewBy    *int64 `json:"grewBy,omitempty"`
	GrewOver  *int64 `json:"grewOverMillis,omitempty"`

	Kills int `json:"kills"` // processes for which the line stands
}
