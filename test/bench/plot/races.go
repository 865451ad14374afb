package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// race is the part of a line that a plot needs, with bench's keys.
type race struct {
	Mode     string   `json:"mode"`
	Arena    string   `json:"arena"`
	Version  int      `json:"cgroup"`
	Asked    int64    `json:"mibPerSecond"` // 0 for the maximum
	Margin   int64    `json:"marginMiB"`
	Spinners int      `json:"spinners"`
	Outcome  string   `json:"outcome"`
	ToDead   *float64 `json:"crossingToDeadMillis"`
}

// read returns the races with a known time. A race that ended before its crossing was observed
// has no place on an axis of times.
func read(from io.Reader) (races []race, err error) {
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		var r race
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if r.Mode == "" || r.Outcome == "" {
			return nil, fmt.Errorf("line %d: no race: mode or outcome is missing", n)
		}
		if r.ToDead != nil && *r.ToDead > 0 {
			races = append(races, r)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(races) == 0 {
		return nil, errors.New("no race with a time")
	}
	return races, nil
}

// labelled returns the races of the listed modes, NAME=LABEL separated by commas, by their labels.
// Returns an error if a mode has no race. An empty list leaves all as they are.
func labelled(races []race, list string) ([]race, error) {
	if list == "" {
		return races, nil
	}
	var all []race
	for entry := range strings.SplitSeq(list, ",") {
		name, label, _ := strings.Cut(entry, "=")
		before := len(all)
		for _, r := range races {
			if r.Mode == name {
				r.Mode = cmp.Or(label, name)
				all = append(all, r)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("-modes %s: no race of the mode %q", list, name)
		}
	}
	return all, nil
}

// setting is the common parameters of all races of a panel.
type setting struct {
	version  int
	arena    string
	spinners int
	margin   int64
}

func (s setting) title() string {
	title := fmt.Sprintf("cgroup v%d, the %s is the node, memory.available<%dMi", s.version, s.arena, s.margin)
	if s.spinners > 0 {
		title += fmt.Sprintf(", %d busy loops beside it", s.spinners)
	}
	return title
}

func (s setting) compare(o setting) int {
	return cmp.Or(cmp.Compare(s.version, o.version), cmp.Compare(s.arena, o.arena),
		cmp.Compare(s.spinners, o.spinners), cmp.Compare(o.margin, s.margin))
}

// panel is one plot.
type panel struct {
	setting
	races []race
}

// panelsOf groups races into panels, in a fixed order.
func panelsOf(races []race) (panels []panel) {
	found := map[setting][]race{}
	for _, r := range races {
		s := setting{r.Version, r.Arena, r.Spinners, r.Margin}
		found[s] = append(found[s], r)
	}
	for _, s := range slices.SortedFunc(maps.Keys(found), setting.compare) {
		panels = append(panels, panel{s, found[s]})
	}
	return panels
}

// rates returns the rates of the races in ascending order.
func (p *panel) rates() []int64 {
	set := map[int64]bool{}
	for _, r := range p.races {
		set[r.Asked] = true
	}
	fastLast := func(a, b int64) int { return cmp.Compare(speed(a), speed(b)) }
	return slices.SortedFunc(maps.Keys(set), fastLast)
}

func speed(asked int64) int64 {
	if asked == 0 {
		return math.MaxInt64
	}
	return asked
}

// modesOf returns the modes of all panels, in the order of first occurrence.
func modesOf(panels []panel) (modes []string) {
	for _, p := range panels {
		for _, r := range p.races {
			if !slices.Contains(modes, r.Mode) {
				modes = append(modes, r.Mode)
			}
		}
	}
	return modes
}
