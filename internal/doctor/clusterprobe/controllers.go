package clusterprobe

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
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// controller is a program that may determine which nodes are lost, and where it is visible.
type controller struct {
	name      string // of its lease, of its container's command, and of its field manager
	namespace string
	ours      bool
	// acts derives from the command line whether it determines lost nodes; ok is false if the
	// command line does not contain that.
	acts func(args []string) (acts, ok bool)
}

func (o *Options) known() []controller {
	return []controller{
		{"plimsoll-controller", o.Namespace, true, replaces},
		{"kube-controller-manager", "kube-system", false, runsLifecycle},
	}
}

// controllers finds the running controllers, and whether they act.
func (o *Options) controllers(ctx context.Context, nodes []corev1.Node, now time.Time) doctor.Fact[[]doctor.LifecycleController] {
	found := []doctor.LifecycleController{}
	for _, j := range o.known() {
		lease, err := o.Client.Leases(j.namespace).Get(ctx, j.name, metav1.GetOptions{})
		without := apierrors.IsNotFound(err)
		switch {
		case err != nil && !without:
			return doctor.Unknown[[]doctor.LifecycleController](err.Error())
		case !without && !fresh(lease, now):
			continue // it has ended
		}
		one, err := o.examine(ctx, j, nodes, now)
		if err != nil {
			return doctor.Unknown[[]doctor.LifecycleController](err.Error())
		}
		if !without || one.Acts.Known { // without leader election there is no lease: it is found by its writes
			found = append(found, one)
		}
	}
	return doctor.Known(found)
}

// examine determines whether a controller acts: by its command line if its pod is visible, or by
// its recent writes.
func (o *Options) examine(ctx context.Context, j controller, nodes []corev1.Node, now time.Time) (doctor.LifecycleController, error) {
	one := doctor.LifecycleController{Name: j.name, Ours: j.ours}
	page := metav1.ListOptions{Limit: pageSize}
	for {
		pods, err := o.Client.Pods(j.namespace).List(ctx, page)
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
	one.Acts = doctor.Unknown[bool](fmt.Sprintf("no pod in %s shows its command line, and it has written no node within %s", j.namespace, recently))
	return one, nil
}

// pageSize is the number of pods of a namespace in memory at once.
const pageSize = 20

// among searches the controller among pods, and records whether it acts.
func (j *controller) among(pods []corev1.Pod, one *doctor.LifecycleController) (found bool) {
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

// runs reports whether a command line is that of the controller.
func (j *controller) runs(args []string) bool {
	if j.ours {
		return slices.Contains(args, "controller")
	}
	return len(args) > 0 && strings.HasSuffix(args[0], j.name)
}

// replaces reads the controller's own --mode; a configuration file may override it.
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

// lifecycleControllers are the node lifecycle controllers of kube-controller-manager: each by its
// names, the newest first.
var lifecycleControllers = [][]string{{"node-lifecycle-controller", "nodelifecycle"}, {"taint-eviction-controller"}}

// runsLifecycle reads --controllers: without it, and with *, all controllers run that are not
// excluded.
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

// recently is the maximum age of a write that shows the activity of its writer.
const recently = 10 * time.Minute

// written returns a node on which the field manager has recently written the condition Ready or the
// taints, according to the API server's managed fields.
func written(nodes []corev1.Node, by string, now time.Time) string {
	for i := range nodes {
		for j := range nodes[i].ManagedFields {
			m := &nodes[i].ManagedFields[j]
			if m.Manager != by || m.Time == nil || now.Sub(m.Time.Time) > recently {
				continue
			}
			if api.LossField(m) != "" {
				return fmt.Sprintf("it wrote node %s at %s", nodes[i].Name, m.Time.UTC().Format(time.RFC3339))
			}
		}
	}
	return ""
}
