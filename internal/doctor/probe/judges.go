package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/lifecycle/convert"
)

// A judge is a program that may say which nodes are lost, and where it is seen.
type judge struct {
	name      string // of its lease, of its container's command, and of its field manager
	namespace string
	ours      bool
	// acts reads from its command line whether it judges nodes; ok is false if that is
	// not said there.
	acts func(args []string) (acts, ok bool)
}

func (o *ClusterOptions) known() []judge {
	return []judge{
		{"plimsoll-controller", o.Namespace, true, replaces},
		{"kube-controller-manager", "kube-system", false, runsLifecycle},
	}
}

// judges finds the controllers that live, and whether they act.
func (o *ClusterOptions) judges(ctx context.Context, nodes []corev1.Node, now time.Time) doctor.Fact[[]doctor.Judge] {
	found := []doctor.Judge{}
	for _, j := range o.known() {
		lease, err := o.Client.CoordinationV1().Leases(j.namespace).Get(ctx, j.name, metav1.GetOptions{})
		without := apierrors.IsNotFound(err)
		switch {
		case err != nil && !without:
			return doctor.Unknown[[]doctor.Judge](err.Error())
		case !without && !fresh(lease, now):
			continue // it has ended
		}
		one, err := o.judge(ctx, j, nodes, now)
		if err != nil {
			return doctor.Unknown[[]doctor.Judge](err.Error())
		}
		if !without || one.Acts.Known { // one that elects nobody has no lease, and is seen by what it does
			found = append(found, one)
		}
	}
	return doctor.Known(found)
}

// judge says whether one acts: by its command line, where its pod is seen, or by
// what it has written of late.
func (o *ClusterOptions) judge(ctx context.Context, j judge, nodes []corev1.Node, now time.Time) (doctor.Judge, error) {
	one := doctor.Judge{Name: j.name, Ours: j.ours}
	page := metav1.ListOptions{Limit: pageSize}
	for {
		pods, err := o.Client.CoreV1().Pods(j.namespace).List(ctx, page)
		if err != nil {
			return one, err
		}
		if j.among(pods.Items, &one) {
			return one, nil
		}
		if page.Continue = pods.Continue; page.Continue == "" {
			break
		}
	}
	if what := written(nodes, j.name, now); what != "" {
		one.Acts, one.Why = doctor.Known(true), what
		return one, nil
	}
	one.Acts = doctor.Unknown[bool](fmt.Sprintf("no pod in %s tells its command line, and it has written no node within %s", j.namespace, recently))
	return one, nil
}

// pageSize is how many pods of a namespace are in memory at once.
const pageSize = 20

// among looks for the judge among pods, and notes whether it acts.
func (j *judge) among(pods []corev1.Pod, one *doctor.Judge) (found bool) {
	for i := range pods {
		for _, c := range pods[i].Spec.Containers {
			args := slices.Concat(c.Command, c.Args)
			if !j.runs(args) {
				continue
			}
			if acts, ok := j.acts(args); ok {
				one.Acts, one.Why = doctor.Known(acts), "by the command line of pod "+pods[i].Name
				return true
			}
		}
	}
	return false
}

// runs reports whether a command line is the judge's.
func (j *judge) runs(args []string) bool {
	if j.ours {
		return slices.Contains(args, "controller")
	}
	return len(args) > 0 && strings.HasSuffix(args[0], j.name)
}

// replaces is the controller's own --mode; a configuration file may say otherwise.
func replaces(args []string) (acts, ok bool) {
	mode, given := kubeletconfig.Flag(args, "mode")
	dry, isDry := kubeletconfig.Flag(args, "dry-run")
	_, file := kubeletconfig.Flag(args, "config")
	switch {
	case isDry && dry != "false":
		return false, true
	case given:
		return mode == "replace", true
	}
	return false, !file
}

// The lifecycle controllers of kube-controller-manager: each by its names, the newest
// first.
var lifecycleControllers = [][]string{{"node-lifecycle-controller", "nodelifecycle"}, {"taint-eviction-controller"}}

// runsLifecycle reads --controllers: without it, and with *, all run that are not
// taken out.
func runsLifecycle(args []string) (acts, ok bool) {
	text, given := kubeletconfig.Flag(args, "controllers")
	if !given {
		return true, true
	}
	list := strings.Split(text, ",")
	for _, names := range lifecycleControllers {
		named := slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
		without := slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, "-"+name) })
		if named || slices.Contains(list, "*") && !without {
			return true, true
		}
	}
	return false, true
}

// recently is how old a write may be that still tells what its writer does.
const recently = 10 * time.Minute

// written finds a node of which the field manager has lately written the condition
// Ready or the taints, by what the API server keeps about who wrote which field.
func written(nodes []corev1.Node, by string, now time.Time) string {
	for i := range nodes {
		for j := range nodes[i].ManagedFields {
			m := &nodes[i].ManagedFields[j]
			if m.Manager != by || m.Time == nil || now.Sub(m.Time.Time) > recently {
				continue
			}
			if convert.Judged(m) != "" {
				return fmt.Sprintf("it wrote node %s at %s", nodes[i].Name, m.Time.UTC().Format(time.RFC3339))
			}
		}
	}
	return ""
}
