package lifecycle

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/zones"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// TestMain removes client-go's error handlers. They slow errors down by a clock that all tests
// share. The real year is the future of virtual time, and would stop a reflector for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// system is the namespace of the agents' leases and of the leader election.
const system = "plimsoll-system"

func testPolicy() core.Policy {
	return core.Policy{
		Health:       heartbeat.Policy{Grace: 50 * time.Second, StartupGrace: time.Minute, Renewal: 10 * time.Second},
		Confirmation: confirm.Policy{LiveReads: true, ReadsPerSecond: 50, Outage: 40 * time.Second},
		Zones:        zones.Policy{Rate: 1, SecondaryRate: 0.1, FullRate: -1, LargeZone: 50, Unhealthy: 0.55},
		Agents:       agents.Policy{Grace: 40 * time.Second},
		NoExecute:    true, TaintEvictions: true,
		MaxAutonomy: 24 * time.Hour,
	}
}

func testSettings() Settings {
	return Settings{
		Mode: Replace, QPS: 100, Burst: 200, EventQPS: 50, RequestTimeout: 10 * time.Second,
		EvictionWait: 2 * time.Minute, AgentNamespace: system,
		OtherWriters: DefaultOtherWriters, OtherWriterWindow: 5 * time.Minute,
		Election: Election{Namespace: system, Name: "plimsoll-controller", Identity: "a",
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
	}
}

// env is a controller before a server, in virtual time.
type env struct {
	*server
	t          *testing.T
	settings   Settings
	policy     core.Policy
	log        logcapture.Book
	controller *Controller
	stop       func() // stops the controller and waits for its end
	ended      error  // the result of the controller
	begun      time.Time
	wall       *wall // nil: never set

	meters Meters

	decided   sync.Mutex
	decisions []Decision
}

func newEnv(t *testing.T) *env {
	return &env{server: newServer(), t: t, settings: testSettings(), policy: testPolicy(), begun: time.Now()}
}

func (r *env) parts() Parts {
	return Parts{
		Watching: r.connect(r.t), Writing: r.connect(r.t), Electing: r.connect(r.t), Log: r.log.Logger(),
		Meters: r.meters,
		Decided: func(d Decision) {
			r.decided.Lock()
			defer r.decided.Unlock()
			r.decisions = append(r.decisions, d)
		},
	}
}

// start runs the controller until the test, or stop, ends it, and returns when it is idle.
func (r *env) start() {
	r.controller = New(r.settings, r.policy, r.parts())
	if r.wall != nil {
		r.controller.clock = r.wall.clock()
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended = r.controller.Run(ctx)
	}()
	r.stop = func() { cancel(); <-done }
	r.t.Cleanup(r.stop)
	synctest.Wait()
}

// until advances time to the given offset from the beginning.
func (r *env) until(at time.Duration) {
	<-time.After(time.Until(r.begun.Add(at)))
	synctest.Wait()
}

// with runs f with exclusive access to the server.
func (s *server) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// lines returns the decisions of these kinds (default all) in short form, with the time since
// the beginning.
func (r *env) lines(kinds ...string) string {
	r.decided.Lock()
	defer r.decided.Unlock()
	var b strings.Builder
	for _, d := range r.decisions {
		wanted := len(kinds) == 0
		for _, k := range kinds {
			wanted = wanted || k == d.Decision
		}
		if !wanted {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, d.Time)
		if err != nil {
			r.t.Error(err)
		}
		fmt.Fprintln(&b, strings.Join(strings.Fields(fmt.Sprint(at.Sub(r.begun).Round(time.Second), " ", d.Decision, " ", d.Node, " ", d.Pod, " ", d.What, " ", d.Error)), " "))
	}
	return b.String()
}

// node stores a node that reports ready, and its lease.
func (r *env) node(name string, change ...func(*corev1.Node)) *corev1.Node {
	now := metav1.Now()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: now,
			Labels: map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: "z"}},
		Status: corev1.NodeStatus{Conditions: readyConditions(corev1.ConditionTrue, now)},
	}
	for _, c := range change {
		c(n)
	}
	r.with(func() { r.store("nodes", n) })
	r.renew(corev1.NamespaceNodeLease, name)
	return n
}

func readyConditions(status corev1.ConditionStatus, at metav1.Time) []corev1.NodeCondition {
	all := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletReady"}}
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		all = append(all, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at})
	}
	return all
}

func (r *env) renew(namespace, name string) {
	now := metav1.NowMicro()
	r.with(func() {
		r.store("leases", &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("lease-" + name)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now},
		})
	})
}

// renewEvery10s renews the leases of nodes every 10 s until ctx ends.
func (r *env) renewEvery10s(ctx context.Context, namespace string, names ...string) {
	go func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				for _, name := range names {
					r.renew(namespace, name)
				}
			}
		}
	}()
}

// pod stores a running pod.
func (r *env) pod(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		}},
	}
	for _, c := range change {
		c(p)
	}
	r.with(func() { r.store("pods", p) })
	return p
}

// tolerating sets the time for which a pod tolerates nodes that are not ready, in seconds.
func tolerating(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
}

func isBound(o object) bool {
	p, is := o.(*corev1.Pod)
	return is && p.Spec.NodeName != ""
}

// live returns the node on the server.
func (r *env) live(name string) (n *corev1.Node) {
	r.with(func() { n = r.objects["nodes"]["/"+name].(*corev1.Node) })
	return n
}

// livePod returns the pod on the server; nil if it is gone.
func (r *env) livePod(name string) (p *corev1.Pod) {
	r.with(func() { p, _ = r.objects["pods"]["default/"+name].(*corev1.Pod) })
	return p
}

// taintsOf returns a node's taints as KEY:EFFECT.
func taintsOf(n *corev1.Node) string {
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(all, " ")
}

func conditionOf(n *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}
