package clusterstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"plimsoll.dev/plimsoll/internal/document"
)

// Build describes a program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// AgentVersion is a version of agents.
type AgentVersion struct {
	Version string `json:"version"`
	Nodes   int    `json:"nodes"`
}

// Versions are the versions of the client and of the agents. It implements [document.Document].
type Versions struct {
	document.Header
	Client Build          `json:"client"`
	Agents []AgentVersion `json:"agents,omitempty"`       // the most frequent first
	Silent int            `json:"silentAgents,omitempty"` // not counted among Agents
}

// NewVersions returns the versions of the client and of the agents that renew their leases.
func NewVersions(client Build, agents []*Agent, now time.Time) *Versions {
	v := &Versions{Header: document.NewHeader("Versions"), Client: client}
	counts := map[string]int{}
	for _, a := range agents {
		if a.silent(now) {
			v.Silent++
		} else {
			counts[a.Version]++
		}
	}
	for version, nodes := range counts {
		v.Agents = append(v.Agents, AgentVersion{version, nodes})
	}
	slices.SortFunc(v.Agents, func(a, b AgentVersion) int {
		return cmp.Or(-cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Version, b.Version))
	})
	return v
}

// Nodes implements document.Document.
func (v *Versions) Nodes() []string { return nil }

// Table implements document.Document.
func (v *Versions) Table(func(time.Duration) string) *document.Table {
	t := &document.Table{
		Columns: []document.Column{{Name: "COMPONENT"}, {Name: "VERSION"}, {Name: "NODES"}, {Name: "REVISION", Wide: true}, {Name: "GO", Wide: true}, {Name: "PLATFORM", Wide: true}},
		Rows:    [][]string{{"client", v.Client.Version, "", v.Client.Revision, v.Client.Go, v.Client.Platform}},
	}
	for _, a := range v.Agents {
		t.Rows = append(t.Rows, []string{"agent", a.Version, strconv.Itoa(a.Nodes), "", "", ""})
	}
	if v.Silent > 0 {
		t.Summary = fmt.Sprintf("silent agents, not counted: %d; kubectl plimsoll status names them", v.Silent)
	}
	return t
}
