package clusterstatus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"plimsoll.dev/plimsoll/internal/output"
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

// Versions are the versions of the client and of the agents. It implements [output.Document].
type Versions struct {
	output.Header
	Client Build          `json:"client"`
	Agents []AgentVersion `json:"agents,omitempty"`
	Silent int            `json:"silentAgents,omitempty"` // not counted among Agents
}

// NewVersions returns the versions of the client and of the agents that renew their leases.
func NewVersions(client Build, agents []*Agent, now time.Time) *Versions {
	v := &Versions{Header: output.NewHeader("Versions"), Client: client}
	counts := map[string]int{}
	for _, a := range agents {
		if a.silent(now) {
			v.Silent++
		} else {
			counts[a.Version]++
		}
	}
	for _, version := range slices.SortedFunc(maps.Keys(counts), output.Natural) {
		v.Agents = append(v.Agents, AgentVersion{version, counts[version]})
	}
	return v
}

// Names implements output.Document.
func (v *Versions) Names() []string { return nil }

// Table implements output.Document.
func (v *Versions) Table(wide bool) *output.Table {
	t := &output.Table{Columns: []string{"COMPONENT", "VERSION", "NODES"}}
	client := []output.Cell{{Text: "client"}, {Text: v.Client.Version}, {}}
	if wide {
		t.Columns = append(t.Columns, "REVISION", "GO", "PLATFORM")
		client = append(client, output.Cell{Text: v.Client.Revision}, output.Cell{Text: v.Client.Go}, output.Cell{Text: v.Client.Platform})
	}
	t.Rows = [][]output.Cell{client}
	for _, a := range v.Agents {
		row := []output.Cell{{Text: "agent"}, {Text: a.Version}, {Text: strconv.Itoa(a.Nodes)}}
		if wide {
			row = append(row, output.Cell{}, output.Cell{}, output.Cell{})
		}
		t.Rows = append(t.Rows, row)
	}
	if v.Silent > 0 {
		t.Summary = fmt.Sprintf("silent agents, not counted: %d; kubectl plimsoll status names them", v.Silent)
	}
	return t
}
