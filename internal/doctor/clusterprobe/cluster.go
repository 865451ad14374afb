package clusterprobe

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Patience is the default bound of a probe.
const Patience = 10 * time.Second

// Options are the inputs of [Cluster].
type Options struct {
	Client    api.Interface
	Namespace string // of the agents' leases and of the controller
	// Patience bounds the duration; 0 is [Patience].
	Patience time.Duration
	// Now reads the local clock; nil is time.Now.
	Now func() time.Time
}

// Cluster reads the facts of a cluster, within the patience of the options.
func Cluster(ctx context.Context, o Options) (f doctor.ClusterFacts) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Patience, Patience))
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}
	f.Ahead = doctor.Read(api.ClockAhead(ctx, o.Client, o.Now)) // ages of leases are by the server's clock
	now := o.Now().Add(-f.Ahead.Value)
	nodes, err := o.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		f.Nodes = doctor.Unknown[[]doctor.Node](err.Error())
		f.LifecycleControllers = doctor.Unknown[[]doctor.LifecycleController](err.Error())
		f.Policies = o.policies(ctx)
		f.Repairs = o.repairs(ctx)
		return f
	}
	var group sync.WaitGroup
	group.Go(func() { f.Nodes = o.nodes(ctx, nodes.Items, now) })
	group.Go(func() { f.Policies = o.policies(ctx) })
	group.Go(func() { f.Repairs = o.repairs(ctx) })
	group.Go(func() { f.LifecycleControllers = o.controllers(ctx, nodes.Items, now) })
	group.Wait()
	return f
}

// policies returns the names of the ValidatingAdmissionPolicies with a binding.
func (o *Options) policies(ctx context.Context) doctor.Fact[[]string] {
	bindings, err := o.Client.PolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return doctor.Unknown[[]string](err.Error())
	}
	policies, err := o.Client.Policies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return doctor.Unknown[[]string](err.Error())
	}
	names := []string{}
	for _, p := range policies.Items {
		for _, b := range bindings.Items {
			if b.Spec.PolicyName == p.Name && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return doctor.Known(names)
}

// nodes returns the cluster's nodes, each with its agent.
func (o *Options) nodes(ctx context.Context, nodes []corev1.Node, now time.Time) doctor.Fact[[]doctor.Node] {
	leases, err := o.Client.Leases(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return doctor.Unknown[[]doctor.Node](err.Error())
	}
	agents, leased := map[string]*doctor.Agent{}, map[string]string{}
	for i := range leases.Items {
		l := &leases.Items[i]
		a := agentOf(l, now)
		if agents[l.Name] = a; a != nil && !a.Expired() {
			leased[l.Name] = l.Annotations[conditions]
		}
	}
	found := make([]doctor.Node, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		found = append(found, doctor.Node{Name: n.Name, KubeletVersion: n.Status.NodeInfo.KubeletVersion, Pressure: pressure(n, leased[n.Name]), Agent: agents[n.Name]})
	}
	return doctor.Known(found)
}

// pressure returns the conditions of pressure that are True: of a Node, by any writer, and in its agent's lease.
func pressure(n *corev1.Node, leased string) (found []string) {
	inLease := strings.Split(leased, ",")
	for c := range signals.Condition(signals.ConditionCount) {
		name := c.String()
		if slices.Contains(inLease, name) || slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return strings.TrimPrefix(string(c.Type), prefix) == name && c.Status == corev1.ConditionTrue
		}) {
			found = append(found, name)
		}
	}
	return found
}

// Annotations of an agent's lease.
const (
	prefix     = "plimsoll.dev/"
	version    = prefix + "version"
	thresholds = prefix + "thresholds"
	dryRun     = prefix + "dry-run" // of agents without an arming state
	armed      = prefix + "armed"
	reason     = prefix + "armed-reason"
	findings   = prefix + "findings"
	conditions = prefix + "conditions"
)

// Bounds of what any writer of a lease can write: texts in bytes, and the number of findings.
const (
	maxText     = 512
	maxFindings = 50
)

func printable(text string) string { return signals.PrintableText(text, maxText) }

// agentOf reads a lease; nil if it is not the lease of an agent.
func agentOf(l *coordinationv1.Lease, now time.Time) *doctor.Agent {
	if _, is := l.Annotations[version]; !is || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return nil
	}
	a := &doctor.Agent{
		Version: printable(l.Annotations[version]), Thresholds: printable(l.Annotations[thresholds]), Reason: printable(l.Annotations[reason]),
		Silent: now.Sub(l.Spec.RenewTime.Time), Lasts: time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second,
	}
	for code := range strings.FieldsFuncSeq(l.Annotations[findings], func(r rune) bool { return r == ',' }) {
		if len(a.Findings) == maxFindings {
			break
		}
		a.Findings = append(a.Findings, printable(code))
	}
	if flag, there := l.Annotations[armed]; there {
		a.Armed, _ = strconv.ParseBool(flag) // an unreadable value means disarmed
	} else {
		dry, err := strconv.ParseBool(l.Annotations[dryRun])
		a.Armed = err == nil && !dry
	}
	return a
}

// fresh reports whether the holder of a lease is alive.
func fresh(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Sub(s.RenewTime.Time) <= time.Duration(*s.LeaseDurationSeconds)*time.Second+leaseSlack
}

// leaseSlack is how late after the end of its lease a leader may appear to renew it: the leader
// renews in time, but the answer is delayed.
const leaseSlack = 5 * time.Second
