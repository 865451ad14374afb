package cluster

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// indent aligns actions below events.
const indent = "          "

// WriteText runs the scenario and writes it as text: the events of each time, and below them the
// actions of the controller with their reasons. It returns an error, and writes nothing, if the
// run finds faults in the file. It also returns errors of w.
func (s *Scenario) WriteText(w io.Writer) error {
	chapters, err := s.run()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s\n\n", s.heading()); err != nil {
		return err
	}
	for _, c := range chapters {
		if _, err := io.WriteString(w, c.text()); err != nil {
			return err
		}
	}
	if len(chapters) == 0 {
		_, err = fmt.Fprintf(w, "nothing happens until %s\n", seconds(s.until))
	}
	return err
}

func (s *Scenario) heading() string {
	nodes, pods := 0, 0
	for _, n := range s.nodes {
		nodes += len(n.names)
	}
	for _, p := range s.pods {
		pods += len(p.names)
	}
	p := &s.policy
	lines := []string{
		counted(nodes, "node") + ", " + counted(pods, "pod"),
		fmt.Sprintf("a node is Unknown %s after its last sign of life, %s after its creation if there was none", p.Health.Grace, p.Health.StartupGrace),
	}
	switch rate := fmt.Sprintf("%g nodes per second of a healthy zone", p.Zones.Rate); {
	case p.NoExecute && p.TaintEvictions:
		lines = append(lines, "it is tainted NoExecute, at most "+rate+", and its pods go when they tolerate that no longer")
	case p.NoExecute:
		lines = append(lines, "it is tainted NoExecute, at most "+rate+", and no pod is evicted for it")
	default:
		lines = append(lines, fmt.Sprintf("its pods are evicted after %s, from at most %s", p.PodEvictionTimeout, rate))
	}
	if p.EvictedPodTTL > 0 {
		lines = append(lines, fmt.Sprintf("what is left of pods that agents evicted is deleted after %s", p.EvictedPodTTL))
	}
	return strings.Join(lines, "\n")
}

// text returns a chapter as text, with the time in the first line.
func (c *chapter) text() string {
	sentences := append(slices.Clone(c.events), c.sentences()...)
	var b strings.Builder
	for i, s := range sentences {
		at := indent
		if i == 0 {
			at = fmt.Sprintf("%8s  ", c.at)
		}
		b.WriteString(at + s + "\n")
	}
	return b.String()
}

// sentences describes the actions of the controller, with similar ones in one sentence.
func (c *chapter) sentences() (all []string) {
	lines := slices.Clone(c.lines)
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(min(ranks[a.Do], 1), min(ranks[b.Do], 1)), cmp.Compare(a.Node, b.Node), cmp.Compare(ranks[a.Do], ranks[b.Do]))
	})
	for len(lines) > 0 {
		alike := 1
		for alike < len(lines) && lines[alike].alike(&lines[0]) {
			alike++
		}
		all = append(all, "→ "+formatters[lines[0].Do](lines[:alike]))
		lines = lines[alike:]
	}
	return all
}

// alike reports whether two lines fit into one sentence.
func (l *Line) alike(other *Line) bool {
	return l.Do == other.Do && l.Node == other.Node && l.Op == other.Op && l.why == other.why &&
		l.Do != doZone && l.Do != doLabel
}

// formatters format groups of similar lines as sentences.
var formatters = map[string]func([]Line) string{
	doZone: func(l []Line) string { return fmt.Sprintf("zone %q is %s: %s", *l[0].Zone, l[0].State, l[0].why) },
	doCondition: func(l []Line) string {
		return fmt.Sprintf("%s: %s become Unknown (%s): %s", l[0].Node, list(l, func(l *Line) string { return l.Type }), l[0].Reason, l[0].why)
	},
	doTaint: func(l []Line) string {
		verb := map[string]string{opAdd: "tainted", opRemove: "no longer tainted"}[l[0].Op]
		return fmt.Sprintf("%s: %s %s", l[0].Node, verb, list(l, func(l *Line) string { return l.Key + ":" + l.Effect }))
	},
	doLabel: func(l []Line) string { return fmt.Sprintf("%s: label %s=%s", l[0].Node, l[0].Key, *l[0].Value) },
	doPodNotReady: func(l []Line) string {
		return fmt.Sprintf("%s: not ready any more: %s", l[0].Node, list(l, (*Line).pod))
	},
	doEvict: func(l []Line) string {
		return fmt.Sprintf("%s: EVICT %s: %s", l[0].Node, list(l, (*Line).pod), l[0].why)
	},
	doCancel: func(l []Line) string {
		return fmt.Sprintf("%s: eviction of %s is called off: %s", l[0].Node, list(l, (*Line).pod), l[0].why)
	},
	doClearPod: func(l []Line) string {
		return fmt.Sprintf("%s: what is left of %s is deleted: %s", l[0].Node, list(l, (*Line).pod), l[0].why)
	},
}

func (l *Line) pod() string { return l.Pod }

// list joins one value per line.
func list(lines []Line, of func(*Line) string) string {
	names := make([]string, len(lines))
	for i := range lines {
		names[i] = of(&lines[i])
	}
	return listNames(names)
}
