package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Request selects nodes.
type Request struct {
	Client    api.Interface
	Namespace string   // of the agents' leases
	Names     []string // of nodes; empty: all
	Selector  string   // of labels of nodes; empty: all
}

// Validate returns an error if the selector cannot be parsed, or is given beside names.
func (r *Request) Validate() error {
	if r.Selector != "" && len(r.Names) > 0 {
		return fmt.Errorf("--selector: %q: name nodes, or select them by labels", r.Selector)
	}
	if _, err := labels.Parse(r.Selector); err != nil {
		return fmt.Errorf("--selector: %q: %w", r.Selector, err)
	}
	return nil
}

// Nodes returns the selected nodes, and leases of agents without a Node unless a selector excludes
// them. Both kinds are listed at once. Returns an error if a list cannot be read, or a named node does
// not exist; the nodes that exist are returned beside the latter.
func (r *Request) Nodes(ctx context.Context) ([]clusterstatus.Node, error) {
	var (
		nodes  []clusterstatus.Node
		agents map[string]*clusterstatus.Agent
		errs   [2]error
		group  sync.WaitGroup
	)
	group.Go(func() { nodes, errs[0] = r.listNodes(ctx) })
	group.Go(func() { agents, errs[1] = r.Agents(ctx) })
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	listed := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		n.Agent, listed[n.Name] = agents[n.Name], true
	}
	for name, a := range agents {
		if r.Selector == "" && !listed[name] && r.wants(name) {
			nodes = append(nodes, clusterstatus.Node{Name: name, Agent: a})
			listed[name] = true
		}
	}
	return nodes, r.missing(listed)
}

// missing returns an error for named nodes that were not found.
func (r *Request) missing(listed map[string]bool) error {
	var faults []error
	for _, name := range r.Names {
		if !listed[name] {
			faults = append(faults, fmt.Errorf("find the node %q: neither a Node nor the lease of an agent in the namespace %s has that name", name, r.Namespace))
		}
	}
	return errors.Join(faults...)
}

func (r *Request) wants(name string) bool { return len(r.Names) == 0 || slices.Contains(r.Names, name) }

// one returns the selector of a single named object.
func (r *Request) one() (o metav1.ListOptions) {
	if len(r.Names) == 1 {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", r.Names[0]).String()
	}
	return o
}

func (r *Request) listNodes(ctx context.Context) (nodes []clusterstatus.Node, err error) {
	o := r.one()
	o.LabelSelector = r.Selector
	err = each(ctx, "nodes", r.Client.Nodes(), o, func(page *corev1.NodeList) {
		for i := range page.Items {
			if n := &page.Items[i]; r.wants(n.Name) {
				nodes = append(nodes, nodeOf(n))
			}
		}
	})
	return nodes, err
}

// Agents returns the agents of the selected nodes by the names of their nodes, with one list of leases.
// It ignores the selector. Returns an error if the leases cannot be read.
func (r *Request) Agents(ctx context.Context) (map[string]*clusterstatus.Agent, error) {
	agents := map[string]*clusterstatus.Agent{}
	what := "leases in the namespace " + r.Namespace
	err := each(ctx, what, r.Client.Leases(r.Namespace), r.one(), func(page *coordinationv1.LeaseList) {
		for i := range page.Items {
			l := &page.Items[i]
			if a := agentOf(l); a != nil && r.wants(l.Name) {
				agents[strings.Clone(l.Name)] = a
			}
		}
	})
	return agents, err
}

// Arming returns the setting for all nodes, which the ConfigMap has; the zero Source if there is none. Returns an error if
// the ConfigMap cannot be read.
func (r *Request) Arming(ctx context.Context) (arming.Source, error) {
	found, err := r.Client.ConfigMaps(r.Namespace).Get(ctx, arming.ConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return arming.Source{}, nil
	case apierrors.IsForbidden(err):
		return arming.Source{}, fmt.Errorf("read the setting for all nodes: %w: your account needs the right to get the ConfigMap %s/%s", err, r.Namespace, arming.ConfigMap)
	case err != nil:
		return arming.Source{}, fmt.Errorf("read the setting for all nodes in the ConfigMap %s/%s: %w", r.Namespace, arming.ConfigMap, err)
	}
	return sourceOf(found.Data[arming.KeyAll], found.Data[arming.KeyAccept]), nil
}
