package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/heartbeat"
)

// noAgentsError is the error of a request without a matching agent: none at all, or none on the
// nodes.
type noAgentsError struct {
	written bool     // the setting was written nevertheless
	nodes   []string // empty: the request was for all nodes
}

func (noAgentsError) Error() string { return "no agent was found" }

const (
	// searchTime bounds the search for agents in other namespaces.
	searchTime = 20 * time.Second
	// leasesPerPage and maxPages bound the reads of a cluster's leases.
	leasesPerPage, maxPages = 500, 400
	// maxNamespaces bounds the number of namespaces with agents in a message.
	maxNamespaces = 10
)

// countAgents returns the number of agents' leases in each namespace. An empty namespace means all
// of them.
func (r *Request) countAgents(ctx context.Context, namespace string) (map[string]int, error) {
	found := map[string]int{}
	options := metav1.ListOptions{Limit: leasesPerPage}
	for range maxPages {
		list, err := r.Client.Leases(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if l := &list.Items[i]; l.Annotations[heartbeat.AnnotationVersion] != "" {
				found[l.Namespace]++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	return found, nil
}

// noAgents returns the error with the searched namespace and the namespaces that have agents. It
// returns nil if the request permits a cluster without agents.
func (r *Request) noAgents(none noAgentsError) error {
	if r.AllowNone && len(none.nodes) == 0 {
		_, err := fmt.Fprintf(r.Out, "no agent has a lease in the namespace %s: nothing to clean up\n", r.Namespace)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no agent has a lease in the namespace %s of %s", r.Namespace, r.Cluster)
	if len(none.nodes) > 0 {
		fmt.Fprintf(&b, " for %s", strings.Join(none.nodes, ", "))
	}
	if none.written {
		fmt.Fprintf(&b, ": %q is written, and no agent follows it yet\n", r.Setting)
	} else {
		fmt.Fprintf(&b, ": %q is not written\n", r.Setting)
	}
	b.WriteString(r.otherNamespaces())
	return fmt.Errorf("%s", b.String())
}

// otherNamespaces returns a sentence about the namespaces that have agents.
func (r *Request) otherNamespaces() string {
	here, places, err := r.agentsElsewhere()
	switch {
	case err != nil:
		return fmt.Sprintf("Other namespaces were not searched: %v. Check --heartbeat-namespace and the context", err)
	case places != "":
		return "Namespaces with agents: " + places + ". Give --heartbeat-namespace"
	case here > 0:
		return fmt.Sprintf("The namespace %s has leases of %d other agents. Check the names of the nodes", r.Namespace, here)
	}
	return "No namespace of this cluster has agents. Check the context, and whether the agents run"
}

// writeUnaffected writes which other namespaces have agents: in an emergency, an agent that stays armed must not be
// overlooked. A failed search is reported, and changes no outcome.
func (r *Request) writeUnaffected() {
	_, places, err := r.agentsElsewhere()
	switch {
	case err != nil:
		fmt.Fprintf(r.Out, "agents of other namespaces are unaffected, and were not searched for: %v\n", err)
	case places != "":
		fmt.Fprintf(r.Out, "unaffected are the agents of other namespaces: %s. Repeat the command there with --heartbeat-namespace\n", places)
	}
}

// agentsElsewhere returns the number of agents in the namespace, and a list of the other namespaces with theirs.
func (r *Request) agentsElsewhere() (here int, places string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), searchTime)
	defer cancel()
	found, err := r.countAgents(ctx, metav1.NamespaceAll)
	if err != nil {
		return 0, "", err
	}
	here = found[r.Namespace]
	delete(found, r.Namespace)
	var others []string
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		others = append(others, fmt.Sprintf("%s (%d)", namespace, found[namespace]))
	}
	if more := len(others) - maxNamespaces; more > 0 {
		others = append(others[:maxNamespaces], fmt.Sprintf("and %d more", more))
	}
	return here, strings.Join(others, ", "), nil
}
