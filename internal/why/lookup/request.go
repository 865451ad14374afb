package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/strictyaml"
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
	Kubeconfig     string
	Version        string // of this program
	Output         string // text, json or yaml
	Timeout        time.Duration
	Out            io.Writer
}

// Run writes the explanations of the selected evictions to Out. Returns an error if there is none, or the records
// cannot be read. For a pod without one that still exists, it writes where the pod stands all the same.
func (r *Request) Run(ctx context.Context) error {
	clients, err := client.DialAsUser(r.Kubeconfig, "plimsoll-why/"+r.Version)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	all, err := r.search(ctx, clients)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%w: not all records were read within %s: name the node of the pod with --node, or give a longer --timeout", err, r.Timeout)
		}
		return err
	}
	for i, e := range all.evictions {
		all.evictions[i] = why.Explain(e.Node, e.Eviction)
	}
	var none error
	if len(all.evictions) == 0 {
		if r.Pod != "" && (r.Node != "" || r.AllNodes) {
			all.pod, all.podErr = r.readPod(ctx, clients) // search did not
		}
		none = r.none(all, clients)
		s := r.standing(ctx, clients, all.pod)
		if s == nil {
			return none
		}
		all.evictions = []why.Explanation{*s}
	}
	if err := r.write(all); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return none
}

// write writes the evictions in the requested form. Those of one pod are explained in full.
func (r *Request) write(all found) error {
	switch r.Output {
	case "json":
		encoder := json.NewEncoder(r.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all.evictions)
	case "yaml":
		text, err := strictyaml.Marshal(all.evictions)
		if err == nil {
			_, err = r.Out.Write(text)
		}
		return err
	}
	var err error
	if all.onlyEarlier {
		fmt.Fprintf(r.Out, "Earlier pods of this name were evicted, as follows. The present one has no record: UID %s, %s.\n\n", all.pod.UID, placeOf(all.pod))
	}
	if r.Pod == "" {
		err = writeTable(r.Out, all.evictions)
	} else {
		for i := range all.evictions {
			if i > 0 {
				fmt.Fprint(r.Out, "\n\n")
			}
			if _, err = io.WriteString(r.Out, all.evictions[i].Text()); err != nil {
				return err
			}
		}
	}
	if all.unreadable > 0 && err == nil {
		_, err = fmt.Fprintf(r.Out, "\n%s\n", r.unreadableText(all))
	}
	if all.node != "" && r.Node == "" && err == nil {
		_, err = fmt.Fprintf(r.Out, "\nRead: the records of node %s, where this pod is. Earlier pods of the same name may have been evicted elsewhere: --all-nodes.\n", all.node)
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
	return fmt.Sprintf("Records of a form that plimsoll %s does not know: %d. Use a newer version.", r.Version, all.unreadable)
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
func (r *Request) none(all found, clients *client.Clients) error {
	what := "no eviction is recorded"
	if r.Pod != "" {
		what = "no eviction of pod " + r.Pod + " is recorded"
	}
	where := fmt.Sprintf("in the namespace %s of %s", r.Namespace, clients.Name())
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
	fmt.Fprintf(&b, "A record is dropped after %d days, when more recent ones need its place, and with its Node where no controller runs.\n", evictionlog.MaxAge/(24*time.Hour))
	if all.unreadable > 0 {
		b.WriteString(r.unreadableText(all) + "\n")
	}
	if r.Pod == "" {
		b.WriteString("If agents are disarmed, they evict nothing: see plimsoll doctor --cluster. In another namespace: give --namespace.")
		return fmt.Errorf("%s", b.String())
	}
	if all.podErr != nil {
		fmt.Fprintf(&b, "Whether the pod exists is not known, which needs the right to get pods in its namespace: %s\n", errorText(all.podErr))
	}
	namespace, name, _ := strings.Cut(r.Pod, "/")
	fmt.Fprintf(&b, `Check the name with plimsoll why --last 20. If another program ended the pod, as a kubelet or the kernel, these may show the cause:
  kubectl -n %s describe pod %s
  kubectl -n %s get events --field-selector involvedObject.name=%s`, namespace, name, namespace, name)
	return fmt.Errorf("%s", b.String())
}
