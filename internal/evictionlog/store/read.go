package store

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Bounds of a read of all nodes.
const (
	nodesPerPage = 200 // 6.4 MB, unless others than agents wrote the records; 25 requests for 5,000 nodes
	maxPages     = 250
)

// Node has the records of one node, the oldest first.
type Node struct {
	Name       string
	Records    []decisionlog.Record
	Unreadable int // lines of a form that this version does not know
}

// Get returns the records of a node, and whether there are any. Returns an error if they cannot be read.
func Get(ctx context.Context, client api.Interface, namespace, node string) (n Node, found bool, err error) {
	m, err := client.ConfigMaps(namespace).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Node{Name: node}, false, nil
	}
	if err != nil {
		return Node{}, false, explainRead(err, "get", namespace)
	}
	return nodeOf(m), true, nil
}

// Each calls each with the records of all nodes, one node at a time, in the order of the API server. Returns an
// error if they cannot be read.
func Each(ctx context.Context, client api.Interface, namespace string, each func(Node)) error {
	options := metav1.ListOptions{Limit: nodesPerPage}
	for range maxPages {
		list, err := client.ConfigMaps(namespace).List(ctx, options)
		if err != nil {
			return explainRead(err, "list", namespace)
		}
		for i := range list.Items {
			if _, is := list.Items[i].Data[Key]; is {
				each(nodeOf(&list.Items[i]))
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
	return fmt.Errorf("read the records of evictions in the namespace %s: there are more than %d: name a node", namespace, nodesPerPage*maxPages)
}

func nodeOf(m *corev1.ConfigMap) Node {
	n := Node{Name: m.Name}
	text := m.Data[Key]
	if len(text) > maxRead {
		n.Unreadable = strings.Count(text, "\n")
		return n
	}
	n.Records, n.Unreadable = evictionlog.Parse(text).Records()
	n.Records = n.Records[max(0, len(n.Records)-evictionlog.MaxRecords):]
	return n
}

func explainRead(err error, verb, namespace string) error {
	err = fmt.Errorf("read the records of evictions in the namespace %s: %w", namespace, err)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: your account needs the right to %s configmaps there, as the ClusterRole view has it", err, verb)
	}
	return err
}
