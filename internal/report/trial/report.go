package trial

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/document"
)

// DefaultWindow is more than a kubelet needs to act for the same pressure: it checks every 10 s, by usage of up
// to 15 s ago, and the end of its pod is noticed within 10 s.
const DefaultWindow = time.Minute

// Options select what a trial compares.
type Options struct {
	Begin, End time.Time     // of the rows, by the time of day; a zero one is that of the records
	Window     time.Duration // around a decision, in which the act of another counts as one for the same pressure
	Nodes      []string      // empty: all
}

// Report is the comparison of a trial.
type Report struct {
	document.Header
	Begin         time.Time  `json:"begin,omitzero"` // of the records, or of the requested time
	End           time.Time  `json:"end,omitzero"`
	WindowSeconds float64    `json:"windowSeconds"`
	Summary       Summary    `json:"summary"`
	Nodes         []Node     `json:"nodes"`
	Decisions     []Decision `json:"decisions"`
	Evictions     []Eviction `json:"evictionsByOthers"`
	OOMKills      []Kill     `json:"oomKills"`
	Missing       []string   `json:"missing"` // what the records do not have
}

// Summary counts the rows by their outcomes, and of OOM kills the processes.
type Summary struct {
	DryRun    Decisions `json:"dryRun"` // of disarmed agents
	Armed     Decisions `json:"armed"`
	Evictions Evictions `json:"evictionsByOthers"`
	OOMKills  OOMKills  `json:"oomKills"`
}

// Decisions counts the evictions that Plimsoll decided.
type Decisions struct {
	Total        int `json:"total"`
	SamePod      int `json:"samePod"`
	AnotherPod   int `json:"anotherPod"`
	OOMKill      int `json:"oomKill"`
	PlimsollOnly int `json:"plimsollOnly"`
	Withdrawn    int `json:"withdrawn"`
	Unknown      int `json:"unknown"`
}

// Evictions counts the evictions by others.
type Evictions struct {
	Total      int `json:"total"`
	SamePod    int `json:"samePod"`
	AnotherPod int `json:"anotherPod"`
	OthersOnly int `json:"othersOnly"`
	Unknown    int `json:"unknown"`
}

// OOMKills counts the processes that the kernel's OOM killer ended.
type OOMKills struct {
	Total      int64 `json:"total"`
	Avoidable  int64 `json:"avoidable"`
	OtherPods  int64 `json:"avoidableOfOtherPods"` // of the avoidable ones, those of another pod than Plimsoll decided to evict
	Despite    int64 `json:"despite"`
	NotDecided int64 `json:"notDecided"`
	OwnLimit   int64 `json:"ownLimit"`
	Unknown    int64 `json:"unknown"`
}

// Outcome is what a row was matched with.
type Outcome string

// The outcomes of rows.
const (
	SamePod      Outcome = "same-pod"      // another program evicted the same pod for the same resource
	AnotherPod   Outcome = "another-pod"   // of Plimsoll and another program, each evicted another pod for the same resource
	OOMKill      Outcome = "oom-kill"      // nothing else was evicted, and the kernel's OOM killer acted
	PlimsollOnly Outcome = "plimsoll-only" // nothing else was evicted or killed
	Withdrawn    Outcome = "withdrawn"     // a soft eviction that did not happen
	OthersOnly   Outcome = "others-only"   // Plimsoll decided no eviction in its place
	Avoidable    Outcome = "avoidable"     // Plimsoll, being disarmed, would have freed the missing memory before
	Despite      Outcome = "despite"       // Plimsoll had evicted a pod before
	NotDecided   Outcome = "not-decided"   // Plimsoll had decided no eviction before
	OwnLimit     Outcome = "own-limit"     // at the limit of a container or of its pod: no eviction avoids it
	Unknown      Outcome = "unknown"       // the records do not show it
)

// Place is the place of a record.
type Place struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // of its first byte
}

func (p Place) String() string { return fmt.Sprintf("%s at byte %d", p.File, p.Offset) }

// Decision is an eviction that Plimsoll decided.
type Decision struct {
	Time      time.Time `json:"time"`
	Last      time.Time `json:"last,omitzero"` // the last time, if it was repeated in dry run
	Repeats   int       `json:"repeats,omitempty"`
	Node      string    `json:"node"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid,omitempty"`
	DryRun    bool      `json:"dryRun"`
	Cause     string    `json:"cause"`    // the signal, or the local-storage limit
	Resource  string    `json:"resource"` // memory, ephemeral-storage, inodes, pids, limit or unknown
	Threshold string    `json:"threshold,omitempty"`
	// Available is the amount of the signal in that check, and Least the smallest one in recorded checks until the end
	// of the window, whatever happened meanwhile.
	Available *int64  `json:"available,omitempty"`
	Least     *int64  `json:"leastAvailable,omitempty"`
	Outcome   Outcome `json:"outcome"`
	Reason    string  `json:"reason,omitempty"`
	// Kubelet is the pod that a kubelet would evict by the same measurements, as far as it is recorded.
	Kubelet string `json:"kubeletWouldEvict,omitempty"`
	Other   *Other `json:"other,omitempty"`
	Record  Place  `json:"record"`
}

// Other is what a row was matched with.
type Other struct {
	Time   time.Time `json:"time"`
	Pod    string    `json:"pod,omitempty"`
	UID    string    `json:"uid,omitempty"`
	Record Place     `json:"record"`
}

// Eviction is an eviction by a kubelet or another program.
type Eviction struct {
	From     time.Time `json:"from"` // the pod was active then
	Time     time.Time `json:"time"` // its end was noticed
	Node     string    `json:"node"`
	Pod      string    `json:"pod"`
	UID      string    `json:"uid,omitempty"`
	Resource string    `json:"resource"` // as that of a decision
	Outcome  Outcome   `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	Decision *Other    `json:"decision,omitempty"`
	Record   Place     `json:"record"`
}

// Kill is an OOM kill of the kernel, or kills that only a counter shows.
type Kill struct {
	From      time.Time `json:"from,omitzero"` // of kills that only a counter shows
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	Pod       string    `json:"pod,omitempty"` // empty: outside of pods
	UID       string    `json:"uid,omitempty"`
	Container string    `json:"container,omitempty"`
	LimitOf   string    `json:"limitOf"`   // as in the decision log
	Processes int64     `json:"processes"` // for which the record stands
	Outcome   Outcome   `json:"outcome"`
	Reason    string    `json:"reason,omitempty"`
	// Lead is the time from the decision to the kill.
	Lead     *float64 `json:"leadSeconds,omitempty"`
	Decision *Other   `json:"decision,omitempty"`
	Record   Place    `json:"record"`
}

// Node is a node of a trial.
type Node struct {
	Name   string    `json:"name"`
	Begin  time.Time `json:"begin,omitzero"` // of its records
	End    time.Time `json:"end,omitzero"`
	Files  int       `json:"files"`
	Arming []string  `json:"arming"` // armed or disarmed, as far as its decisions show it
	// Checks and Usages are the time that recorded checks cover, and that in which the ends of pods were recorded.
	Checks float64 `json:"checksSeconds"`
	Usages float64 `json:"podsSeconds"`
}
