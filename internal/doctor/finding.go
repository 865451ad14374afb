package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// A Severity says how bad a finding is.
type Severity string

// Severities, worst first.
const (
	Error   Severity = "error"   // the agent must not act
	Warning Severity = "warning" // something is lost
	Info    Severity = "info"    // no fault
)

var severities = []Severity{Error, Warning, Info}

// A Finding is one thing that is not as it should be, and what to do.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // empty: the cluster's, or of a node without a name
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`
}

// A Code is a line of the tables: what a finding with it means.
type Code struct {
	Code     string
	Severity Severity
	Means    string
	Remedy   string
}

// A rule is a line of a table over facts of type F.
type rule[F any] struct {
	Code
	look func(*F) []trouble
}

// A trouble is what a rule found: what, and a remedy that is more precise than
// the table's, if there is one.
type trouble struct{ node, what, remedy string }

// one is a trouble by itself; none if what is empty.
func one(what string) []trouble {
	if what == "" {
		return nil
	}
	return []trouble{{what: what}}
}

// when is a trouble by itself if something is so.
func when(so bool, what string) []trouble {
	if !so {
		return nil
	}
	return one(what)
}

// Examine judges a node. Findings come worst first, and in the order of the
// tables.
func Examine(f Facts) []Finding { return examine(nodeRules, &f, f.Node) }

// ExamineCluster judges a cluster, as seen from outside of its nodes.
func ExamineCluster(f ClusterFacts) []Finding { return examine(clusterRules, &f, "") }

func examine[F any](rules []rule[F], f *F, node string) (found []Finding) {
	for _, r := range rules {
		for _, t := range r.look(f) {
			found = append(found, Finding{Code: r.Code.Code, Severity: r.Severity, Node: cmp.Or(t.node, node),
				What: t.what, Remedy: cmp.Or(t.remedy, r.Remedy)})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	return found
}

// Codes are all codes there are, of nodes first, in the order of the tables.
func Codes() (all []Code) { return append(NodeCodes(), ClusterCodes()...) }

// NodeCodes are those of [Examine].
func NodeCodes() []Code { return codes(nodeRules) }

// ClusterCodes are those of [ExamineCluster]; some are found on nodes, too.
func ClusterCodes() []Code { return codes(clusterRules) }

func codes[F any](rules []rule[F]) (all []Code) {
	for _, r := range rules {
		all = append(all, r.Code)
	}
	return all
}

// Worst is the worst severity of findings; empty if there are none.
func Worst(found []Finding) Severity {
	for _, s := range severities {
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == s }) {
			return s
		}
	}
	return ""
}

// Errors are the codes of the errors that are not accepted, each once, in order:
// what keeps an agent from arming itself.
func Errors(found []Finding, accepted []string) (codes []string) {
	for _, f := range found {
		if f.Severity == Error && !slices.Contains(accepted, f.Code) && !slices.Contains(codes, f.Code) {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// unknown makes the rule of a fact that could not be had.
func unknown[F any](code string, s Severity, what, remedy string, missing func(*F) string) rule[F] {
	return rule[F]{Code{code, s, "Could not examine " + what + ".", remedy}, func(f *F) []trouble {
		if cause := missing(f); cause != "" {
			return one("could not examine " + what + ": " + cause)
		}
		return nil
	}}
}

// listed joins names for a sentence.
func listed(names []string) string { return strings.Join(names, ", ") }

// blind begins the codes of what could not be looked at.
const blind = "unknown-"

// Blind reports whether something that matters could not be looked at: then even
// no finding beside it is no sign of health.
func Blind(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Severity != Info && strings.HasPrefix(f.Code, blind) })
}

// Count is how many findings have a severity.
func Count(found []Finding, s Severity) (n int) {
	for _, f := range found {
		if f.Severity == s {
			n++
		}
	}
	return n
}
