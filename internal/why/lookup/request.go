package lookup

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/why"
)

// Request selects evictions.
type Request struct {
	Pod       string // namespace/name; empty: all pods
	Node      string // empty: all nodes
	AllNodes  bool   // of a pod that the API server has, too
	Last      int    // the latest ones only; 0: all
	Namespace string // of the records
	// AgentNamespace is that of the agents' leases.
	AgentNamespace string
	Program        string // name and version, for messages
	Cluster        string // for messages
	Client         api.Interface
	Now            func() time.Time // by the clock of the cluster, if it is known
}

// Result has the explanations of evictions, the latest first; or the standing of a pod that was not evicted.
type Result struct {
	document.Header
	Items []why.Explanation `json:"items"`

	inFull  bool     // explained; false: one line for each
	heading string   // above the text
	notes   []string // below it
}

// Find returns the selected evictions with their explanations. Returns an error if there is none, or the records
// cannot be read. For a pod without one that still exists, it returns where the pod stands all the same; the result
// is nil otherwise.
func (r *Request) Find(ctx context.Context) (*Result, error) {
	all, err := r.search(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{Header: document.NewHeader("EvictionExplanationList"), Items: all.evictions, inFull: r.Pod != ""}
	for i, e := range result.Items {
		result.Items[i] = why.Explain(e.Node, e.Eviction)
	}
	if all.onlyEarlier {
		result.heading = fmt.Sprintf("Earlier pods of this name were evicted, as follows. The present one has no record: UID %s, %s.\n\n", signals.PrintableName(agentpods.UID(all.pod)), placeOf(all.pod))
	}
	if len(result.Items) == 0 {
		if r.Pod != "" && (r.Node != "" || r.AllNodes) {
			all.pod, all.podErr = r.readPod(ctx) // search did not
		}
		err = r.none(all)
		s := r.standing(ctx, all.pod)
		if s == nil {
			return nil, err
		}
		result.Items = []why.Explanation{*s}
	}
	if all.unreadable > 0 {
		result.notes = append(result.notes, r.unreadableText(all))
	}
	if all.node != "" && r.Node == "" {
		result.notes = append(result.notes, fmt.Sprintf("Read: the records of node %s, where this pod is. Earlier pods of the same name may have been evicted elsewhere: --all-nodes.", all.node))
	}
	return result, err
}

// WriteText writes the result for people. The evictions of one pod are explained in full. Returns the error of out.
func (r *Result) WriteText(out io.Writer) error {
	var err error
	if _, err = io.WriteString(out, r.heading); err != nil {
		return err
	}
	if r.inFull {
		for i := range r.Items {
			if i > 0 {
				fmt.Fprint(out, "\n\n")
			}
			if _, err = io.WriteString(out, r.Items[i].Text()); err != nil {
				return err
			}
		}
	} else {
		err = writeTable(out, r.Items)
	}
	for _, note := range r.notes {
		if err == nil {
			_, err = fmt.Fprintf(out, "\n%s\n", note)
		}
	}
	return err
}

// placeOf describes where a pod is.
func placeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "on no node yet"
	}
	return "on node " + pod.Spec.NodeName
}

func (r *Request) unreadableText(all found) string {
	return fmt.Sprintf("Records of a form that %s does not know: %d. Use a newer version.", r.Program, all.unreadable)
}

// writeTable writes one line for each eviction.
func writeTable(out io.Writer, all []why.Explanation) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tNODE\tPOD\tDECISION\tCAUSE\tRESULT")
	for i := range all {
		e := all[i].Eviction
		cause := e.Threshold
		if e.Choice != nil && e.Choice.Cause != e.Signal {
			cause = e.Choice.Cause
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.UTC().Format(time.RFC3339), all[i].Node, e.Pod, e.Decision, cause, e.End)
	}
	return t.Flush()
}

// none returns the error of a search without a result: where was searched, and what to do.
func (r *Request) none(all found) error {
	what := "no eviction is recorded"
	if r.Pod != "" {
		what = "no eviction of pod " + r.Pod + " is recorded"
	}
	where := fmt.Sprintf("in the namespace %s of %s", r.Namespace, r.Cluster)
	switch {
	case r.Node != "" && all.nodes == 0:
		where += fmt.Sprintf(": there is no ConfigMap %s", r.Node)
	case r.Node != "":
		where += ", for node " + r.Node
	default:
		where += fmt.Sprintf(", which has the records of %d nodes", all.nodes)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s.\n", what, where)
	fmt.Fprintf(&b, "A record follows its eviction by some seconds. It is dropped after %d days, when more recent ones need its place, and with its Node where no controller runs.\n", evictionlog.MaxAge/(24*time.Hour))
	if all.unreadable > 0 {
		b.WriteString(r.unreadableText(all) + "\n")
	}
	if r.Pod == "" {
		b.WriteString("Agents that are disarmed, silent or missing evict nothing: see kubectl plimsoll status. The events NoPodHelps and EvictionsIneffective of a Node say why an armed one does not. In another namespace: give --eviction-record-namespace.")
		return fmt.Errorf("%s", b.String())
	}
	if all.podErr != nil {
		fmt.Fprintf(&b, "Whether the pod exists is not known, which needs the right to get pods in its namespace: %s\n", errorText(all.podErr))
	}
	namespace, name, _ := strings.Cut(r.Pod, "/")
	fmt.Fprintf(&b, `Check the name among the latest evictions, with --last 20 in place of the pod. If another program ended the pod, as a kubelet or the kernel, these may show the cause:
  kubectl -n %s describe pod %s
  kubectl -n %s get events --field-selector involvedObject.name=%s`, namespace, name, namespace, name)
	return fmt.Errorf("%s", b.String())
}
