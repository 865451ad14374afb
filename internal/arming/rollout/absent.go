package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// A noAgentsError ends a command of arming that found no agent: none at all, or none
// on the nodes.
type noAgentsError struct {
	written bool     // the word is written all the same
	nodes   []string // empty: all were asked for
}

func (noAgentsError) Error() string { return "no agent was found" }

const (
	// searchTime bounds the search for agents in other namespaces.
	searchTime = 20 * time.Second
	// leasesPerPage and mostPages bound what is read of a cluster's leases.
	leasesPerPage, mostPages = 500, 400
	// mostNamespaces is how many namespaces with agents are named.
	mostNamespaces = 10
)

// agentsIn returns how many leases of agents each namespace has. An empty namespace
// means all of them.
func agentsIn(ctx context.Context, clients *client.Clients, namespace string) (map[string]int, error) {
	found := map[string]int{}
	options := metav1.ListOptions{Limit: leasesPerPage}
	for range mostPages {
		list, err := clients.Writing.CoordinationV1().Leases(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if l := &list.Items[i]; l.Annotations[nodestatus.AnnotationVersion] != "" {
				found[l.Namespace]++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	return found, nil
}

// missed returns the error that names where agents were looked for, and where there
// are some. It is nil if the command allows for none.
func (o *Request) missed(clients *client.Clients, none noAgentsError) error {
	if o.AllowNone && len(none.nodes) == 0 {
		_, err := fmt.Fprintf(o.Out, "no agent has a lease in the namespace %s: nothing to take back\n", o.Namespace)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no agent has a lease in the namespace %s of %s", o.Namespace, placeOf(clients))
	if len(none.nodes) > 0 {
		fmt.Fprintf(&b, " for %s", strings.Join(none.nodes, ", "))
	}
	if none.written {
		fmt.Fprintf(&b, ": %q is written, and no agent follows it yet\n", o.Word)
	} else {
		fmt.Fprintf(&b, ": %q is not written\n", o.Word)
	}
	b.WriteString(o.elsewhere(clients))
	return fmt.Errorf("%s", b.String())
}

// placeOf names the cluster by its context and server.
func placeOf(clients *client.Clients) string {
	if clients.Context == "" {
		return "the server " + clients.Server
	}
	return fmt.Sprintf("the context %s (%s)", clients.Context, clients.Server)
}

// elsewhere returns a sentence about the namespaces that have agents.
func (o *Request) elsewhere(clients *client.Clients) string {
	ctx, cancel := context.WithTimeout(context.Background(), searchTime)
	defer cancel()
	found, err := agentsIn(ctx, clients, metav1.NamespaceAll)
	if err != nil {
		return fmt.Sprintf("Other namespaces were not searched: %v. Check --namespace and the context", err)
	}
	here := found[o.Namespace]
	delete(found, o.Namespace)
	var places []string
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		places = append(places, fmt.Sprintf("%s (%d)", namespace, found[namespace]))
	}
	if more := len(places) - mostNamespaces; more > 0 {
		places = append(places[:mostNamespaces], fmt.Sprintf("and %d more", more))
	}
	switch {
	case len(places) > 0:
		return "Namespaces with agents: " + strings.Join(places, ", ") + ". Give --namespace"
	case here > 0:
		return fmt.Sprintf("The namespace %s has leases of %d other agents. Check the names of the nodes", o.Namespace, here)
	}
	return "No namespace of this cluster has agents. Check the context, and whether the agents run"
}
