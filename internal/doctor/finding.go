package doctor

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Severity is the severity of a finding.
type Severity string

// Severities, worst first.
const (
	Error   Severity = "error"   // the agent must not act
	Warning Severity = "warning" // a function is lost
	Info    Severity = "info"    // no fault
)

var severities = []Severity{Error, Warning, Info}

// Compare returns -1 if a severity is worse than another one, 0 if they are equal, and 1 otherwise.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(severities, s), slices.Index(severities, other))
}

// ErrFindings is the error of a command that found errors, and has written them. ErrIncomplete is that of one that found
// no error and could not examine everything.
var (
	ErrFindings   = errors.New("errors found: see above")
	ErrIncomplete = errors.New("some facts could not be read: see the findings with a code unknown-…")
)

// Verdict returns ErrFindings if there is an error among findings, else ErrIncomplete if a relevant fact is unknown.
func Verdict(found []Finding) error {
	switch {
	case Worst(found) == Error:
		return ErrFindings
	case Incomplete(found):
		return ErrIncomplete
	}
	return nil
}

// Finding is one fault, with its remedy.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"` // empty: of the cluster, or of a node without a name
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`
}

// Code is a line of the tables: the meaning of a finding.
type Code struct {
	Code     string
	Severity Severity
	Means    string
	Remedy   string
}

// rule is a line of a table over facts of type F.
type rule[F any] struct {
	Code
	check func(*F) []trouble
}

// trouble is the result of a rule: the fault, and optionally a more precise remedy than the
// table's.
type trouble struct{ node, what, remedy string }

// one returns a single trouble; none if what is empty.
func one(what string) []trouble {
	if what == "" {
		return nil
	}
	return []trouble{{what: what}}
}

// when returns a single trouble if so is true.
func when(so bool, what string) []trouble {
	if !so {
		return nil
	}
	return one(what)
}

// Examine returns the findings of a node: worst first, then in the order of the tables.
func Examine(f Facts) []Finding { return examine(nodeRules, &f, f.Node) }

// ExamineCluster returns the findings of a cluster, seen from outside of its nodes.
func ExamineCluster(f ClusterFacts) []Finding { return examine(clusterRules, &f, "") }

func examine[F any](rules []rule[F], f *F, node string) (found []Finding) {
	for _, r := range rules {
		for _, t := range r.check(f) {
			found = append(found, Finding{Code: r.Code.Code, Severity: r.Severity, Node: cmp.Or(t.node, node),
				What: t.what, Remedy: cmp.Or(t.remedy, r.Remedy)})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return a.Severity.Compare(b.Severity)
	})
	return found
}

// Codes returns all codes in the order of the tables, those of nodes first.
func Codes() (all []Code) { return append(NodeCodes(), ClusterCodes()...) }

// NodeCodes returns the codes of [Examine].
func NodeCodes() []Code { return codes(nodeRules) }

// ClusterCodes returns the codes of [ExamineCluster]; some occur on nodes, too.
func ClusterCodes() []Code { return codes(clusterRules) }

func codes[F any](rules []rule[F]) (all []Code) {
	for _, r := range rules {
		all = append(all, r.Code)
	}
	return all
}

// Worst returns the worst severity of findings; empty without findings.
func Worst(found []Finding) Severity {
	for _, s := range severities {
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == s }) {
			return s
		}
	}
	return ""
}

// Errors returns the codes of the errors that are not accepted, each once, in order. They keep an
// agent disarmed.
func Errors(found []Finding, accepted []string) (codes []string) {
	for _, f := range found {
		if f.Severity == Error && !slices.Contains(accepted, f.Code) && !slices.Contains(codes, f.Code) {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// unknown returns the rule for an unknown fact.
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

// blind is the prefix of the codes of unknown facts.
const blind = "unknown-"

// Incomplete reports whether a relevant fact is unknown. Then the absence of other findings is no sign
// of health.
func Incomplete(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Severity != Info && strings.HasPrefix(f.Code, blind) })
}

// Count returns the number of findings with a severity.
func Count(found []Finding, s Severity) (n int) {
	for _, f := range found {
		if f.Severity == s {
			n++
		}
	}
	return n
}
