package lifecycle

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

// execute runs an action without a fleet.
func (r *env) execute(a *core.Action) error {
	c := New(r.settings, r.policy, r.parts())
	x := r.task(c, a)
	sending, stop := context.WithCancel(r.t.Context())
	wait := c.events.run(sending)
	err := taskFuncs[a.Kind](x, r.t.Context())
	synctest.Wait()
	stop()
	wait()
	return err
}

func (r *env) task(c *Controller, a *core.Action) *task {
	x := &task{Action: a, class: classOf(a), added: time.Now(), executor: &executor{
		settings: &c.settings, parts: &c.parts, events: c.events, budget: c.budget, inbox: c.inbox,
	}}
	go grantAll(r.t.Context(), c.inbox)
	r.with(func() {
		if n := r.objects["nodes"]["/"+a.Node]; n != nil {
			x.version = n.GetResourceVersion()
		}
	})
	return x
}

// grantAll grants every action.
func grantAll(ctx context.Context, m *inbox) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.some:
		}
		for _, l := range m.collect().events {
			if a, is := l.(wantedQuery); is {
				a.answer <- permission{granted: true}
			}
		}
	}
}

// modelNode returns a node as the fleet receives it.
func (r *env) modelNode(n *corev1.Node) *model.Node {
	return (&converter{warn: func(object, what string) { r.t.Errorf("%s: %s", object, what) }}).node(n)
}

func (r *env) modelPod(p *corev1.Pod) *model.Pod {
	return (&converter{warn: func(object, what string) { r.t.Errorf("%s: %s", object, what) }}).pod(p)
}

func markUnknownOf(n *model.Node) *core.Action {
	return &core.Action{Kind: core.MarkUnknown, Node: n.Name, Object: n, Conditions: []core.UnknownCondition{
		{Type: model.Ready, Reason: model.ReasonStatusUnknown, Message: "m"},
		{Type: model.PIDPressure, Reason: model.ReasonStatusNeverUpdated, Message: "never"},
	}}
}

func TestMarkUnknown_WritesOnlyGivenConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		n := r.node("a", func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:2] })
		r.until(time.Minute)
		if err := r.execute(markUnknownOf(r.modelNode(n))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.seenRequests(), ", "); got != "PATCH nodes/a/status" {
			t.Errorf("got requests %s, want PATCH nodes/a/status", got)
		}
		live, now := r.live("a"), time.Now()
		for _, c := range []struct {
			kind               corev1.NodeConditionType
			status             corev1.ConditionStatus
			message            string
			heartbeat, changed time.Time
		}{
			{corev1.NodeReady, corev1.ConditionUnknown, "m", r.begun, now},
			{corev1.NodeMemoryPressure, corev1.ConditionFalse, "", r.begun, r.begun},
			{corev1.NodePIDPressure, corev1.ConditionUnknown, "never", r.begun, now},
		} {
			got := conditionOf(live, c.kind)
			if got.Status != c.status || got.Message != c.message || !got.LastHeartbeatTime.Time.Equal(c.heartbeat) || !got.LastTransitionTime.Time.Equal(c.changed) {
				t.Errorf("%s: got %+v", c.kind, got)
			}
		}
	})
}

// seenRequests returns the requests except lists, watches and events.
func (r *env) seenRequests() (all []string) {
	r.with(func() {
		for _, s := range r.server.requests {
			if !strings.Contains(s, "events") {
				all = append(all, s)
			}
		}
	})
	return all
}

func TestTask_StopsAfterNewReport(t *testing.T) {
	for _, kind := range []core.Kind{core.MarkUnknown, core.Taint} {
		synctest.Test(t, func(t *testing.T) {
			r := newEnv(t)
			n := r.modelNode(r.node("a"))
			r.until(time.Minute)
			a := markUnknownOf(n)
			if a.Kind = kind; kind == core.Taint {
				a.Add = []model.Taint{{Key: model.KeyUnreachable, Effect: model.NoExecute}}
			}
			x := r.task(New(r.settings, r.policy, r.parts()), a)
			r.node("a") // a report that no watch has delivered yet
			if err := taskFuncs[kind](x, t.Context()); !errors.Is(err, errReported) {
				t.Errorf("%s: got error %v, want %v", kind, err, errReported)
			}
			if live := r.live("a"); conditionOf(live, corev1.NodeReady).Status != corev1.ConditionTrue || live.Spec.Taints != nil {
				t.Errorf("%s: the node was changed: %+v", kind, live)
			}
		})
	}
}

// TestTask_PreservesReportedFault checks that a node's own report is not overwritten for a
// lack of heartbeats.
func TestTask_PreservesReportedFault(t *testing.T) {
	for _, c := range []struct {
		kind core.Kind
		key  string
		want error
	}{
		{core.MarkUnknown, "", errReported},
		{core.Taint, model.KeyUnreachable, errReported},
		{core.Taint, model.KeyNotReady, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newEnv(t)
			a := markUnknownOf(r.modelNode(r.node("a")))
			r.until(time.Minute)
			if a.Kind = c.kind; c.kind == core.Taint {
				a.Add = []model.Taint{{Key: c.key, Effect: model.NoExecute}}
			}
			x := r.task(New(r.settings, r.policy, r.parts()), a)
			r.node("a", func(n *corev1.Node) { n.Status.Conditions = readyConditions(corev1.ConditionFalse, metav1.Now()) })
			if err := taskFuncs[c.kind](x, t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s %s: got error %v, want %v", c.kind, c.key, err, c.want)
			}
			if got := conditionOf(r.live("a"), corev1.NodeReady).Status; got != corev1.ConditionFalse {
				t.Errorf("%s %s: got Ready %s, want False", c.kind, c.key, got)
			}
		})
	}
}

func TestMarkUnknown_RetriesAfterOtherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		n := r.node("a")
		x := r.task(New(r.settings, r.policy, r.parts()), markUnknownOf(r.modelNode(n)))
		r.with(func() { // a write, but not by the node
			other := n.DeepCopy()
			other.Annotations = map[string]string{"k": "v"}
			r.store("nodes", other)
		})
		if err := x.markUnknown(t.Context()); err != nil {
			t.Error(err)
		}
		live := r.live("a")
		if conditionOf(live, corev1.NodeReady).Status != corev1.ConditionUnknown || live.Annotations["k"] != "v" {
			t.Errorf("got node %+v", live)
		}
	})
}

func TestTaint_PreservesForeignTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		added := metav1.NewTime(r.begun.Add(-time.Hour))
		n := r.node("a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{
				{Key: "mine", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added},
				{Key: "odd", Effect: "NoBreakfast"},
				{Key: model.KeyNotReady, Effect: corev1.TaintEffectNoSchedule},
				{Key: model.KeyUnreachable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added},
			}
		})
		r.lenientNode(n)
		writes := 0
		r.with(func() {
			r.fault = func(q *http.Request) (*http.Response, error) { // another write precedes ours, twice
				if q.Method == http.MethodPatch && writes < 2 {
					writes++
					r.with(func() {
						other := r.objects["nodes"]["/a"].DeepCopyObject().(*corev1.Node)
						other.Spec.Taints = append(other.Spec.Taints, corev1.Taint{Key: "late" + string(rune('0'+writes)), Effect: corev1.TaintEffectNoSchedule})
						r.store("nodes", other)
					})
				}
				return nil, nil
			}
		})
		now := r.begun.Add(time.Second)
		err := r.execute(&core.Action{
			Kind: core.Taint, Node: "a", Object: r.lenientNode(n),
			Add: []model.Taint{
				{Key: model.KeyUnreachable, Effect: model.NoSchedule, Added: now},
				{Key: model.KeyUnreachable, Effect: model.NoExecute, Added: now},
			},
			Remove: []model.Taint{{Key: model.KeyNotReady, Effect: model.NoSchedule}, {Key: "mine", Effect: model.NoSchedule}},
			Labels: []taints.LabelChange{{Key: convert.LabelOldOS, Value: "linux"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		live := r.live("a")
		if got, want := taintsOf(live), "mine:NoExecute odd:NoBreakfast unreachable:NoSchedule late1:NoSchedule late2:NoSchedule unreachable:NoExecute"; got != want {
			t.Errorf("got taints %s\nwant %s", got, want)
		}
		if at := live.Spec.Taints[2].TimeAdded; !at.Time.Equal(added.Time) {
			t.Errorf("existing taint: got time %s, want %s", at, added)
		}
		if at := live.Spec.Taints[5].TimeAdded; !at.Time.Equal(now) {
			t.Errorf("new taint: got time %s, want %s", at, now)
		}
		if live.Labels[convert.LabelOldOS] != "linux" || live.Labels[corev1.LabelTopologyZone] != "z" {
			t.Errorf("got labels %v", live.Labels)
		}
	})
}

// lenientNode converts a node with unknown values.
func (r *env) lenientNode(n *corev1.Node) *model.Node {
	return (&converter{warn: func(string, string) {}}).node(n)
}

func TestTaint_FailsAfterRepeatedConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		n := r.node("a")
		r.with(func() {
			r.fault = func(q *http.Request) (*http.Response, error) {
				if q.Method == http.MethodPatch {
					return conflict(addressOf(q.URL.Path), "again"), nil
				}
				return nil, nil
			}
		})
		a := &core.Action{Kind: core.Taint, Node: "a", Object: r.modelNode(n), Add: []model.Taint{{Key: "k", Effect: model.NoSchedule}}}
		if err := r.execute(a); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "patch node a") {
			t.Errorf("got error %v, want a conflict", err)
		}
	})
}

func TestCleanUpAgent_RemovesConditionsAndTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		n := r.node("a", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: api.Prefix + "MemoryPressure", Status: corev1.ConditionTrue},
				corev1.NodeCondition{Type: "their.dev/MemoryPressure", Status: corev1.ConditionTrue})
			n.Spec.Taints = []corev1.Taint{{Key: api.Prefix + "pressure", Effect: corev1.TaintEffectNoSchedule}, {Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		})
		if err := r.execute(&core.Action{Kind: core.CleanUpAgent, Node: "a", Object: r.modelNode(n)}); err != nil {
			t.Fatal(err)
		}
		live := r.live("a")
		if got := taintsOf(live); got != "k:NoSchedule" {
			t.Errorf("got taints %s, want k:NoSchedule", got)
		}
		if conditionOf(live, api.Prefix+"MemoryPressure").Status != "" || len(live.Status.Conditions) != 5 {
			t.Errorf("got conditions %+v", live.Status.Conditions)
		}
	})
}

func evictionOf(p *model.Pod, why core.Why) *core.Action {
	return &core.Action{Kind: core.Evict, Node: p.Node, Pod: p, Why: why, First: time.Now()}
}

func TestEvict_WritesReasonAndEvent(t *testing.T) {
	for _, c := range []struct {
		why            core.Why
		event, message string
		wantStatus     func(*corev1.Pod) bool
	}{
		{core.ByTaint, "TaintManagerEviction", "Marking for deletion Pod default/web", func(p *corev1.Pod) bool {
			c := p.Status.Conditions[0] // a patch puts new ones first
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByTaintManager" &&
				c.Message == "Taint manager: deleting due to NoExecute taint" && p.Status.Reason == ""
		}},
		{core.NodeLost, "NodeControllerEviction", "Marking for deletion Pod web from Node a", func(p *corev1.Pod) bool {
			return p.Status.Reason == "NodeLost" && p.Status.Message == "Node a which was running pod web is unresponsive"
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newEnv(t)
			p := r.pod("a", "web")
			var last *corev1.Pod
			r.with(func() {
				r.fault = func(q *http.Request) (*http.Response, error) {
					if q.Method == http.MethodDelete {
						last = r.livePod("web")
					}
					return nil, nil
				}
			})
			if err := r.execute(evictionOf(r.modelPod(p), c.why)); err != nil {
				t.Fatal(err)
			}
			if r.livePod("web") != nil || last == nil || !c.wantStatus(last) {
				t.Errorf("%s: got last status of the pod %+v", c.why, last)
			}
			if len(r.events) != 1 || r.events[0].Reason != c.event || r.events[0].Message != c.message || r.events[0].InvolvedObject.UID != p.UID {
				t.Errorf("%s: got events %+v", c.why, r.events)
			}
		})
	}
}

func TestPodTask_SkipsNewPodOfSameName(t *testing.T) {
	for _, kind := range []core.Kind{core.Evict, core.SoftEvict, core.MarkNotReady} {
		for _, method := range []Method{Delete, EvictThenDelete} {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.settings.EvictionMethod = method
				was := r.modelPod(r.pod("a", "web"))
				was.UID, was.Requested = "former", &model.Request{GraceSeconds: 30}
				a := evictionOf(was, core.ByTaint)
				a.Kind = kind
				if err := r.execute(a); err != nil {
					t.Errorf("%s, %s: got error %v for a replaced pod", kind, method, err)
				}
				if p := r.livePod("web"); p == nil || len(p.Status.Conditions) != 2 || p.Status.Conditions[0].Status != corev1.ConditionTrue {
					t.Errorf("%s, %s: another pod was changed: %+v", kind, method, p)
				}
				r.with(func() { delete(r.objects["pods"], "default/web") })
				if err := r.execute(a); err != nil {
					t.Errorf("%s, %s: got error %v for a missing pod", kind, method, err)
				}
			})
		}
	}
}

// TestEvict_DeletesByUID covers a pod that was replaced between the patch and the delete.
func TestEvict_DeletesByUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		p := r.modelPod(r.pod("a", "web"))
		r.with(func() {
			r.fault = func(q *http.Request) (*http.Response, error) {
				if q.Method == http.MethodDelete {
					r.pod("b", "web", func(p *corev1.Pod) { p.UID = "new" })
				}
				return nil, nil
			}
		})
		if err := r.execute(evictionOf(p, core.ByTaint)); err != nil {
			t.Error(err)
		}
		if p := r.livePod("web"); p == nil || p.UID != "new" {
			t.Errorf("the new pod was deleted: got %+v", p)
		}
	})
}

func TestEvictThenDelete_DeletesAfterEvictionWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.EvictionMethod = EvictThenDelete
		r.refuses = func(p *corev1.Pod) error {
			err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
			return err
		}
		p := r.modelPod(r.pod("a", "web"))
		for at := time.Duration(0); at < r.settings.EvictionWait; at += 30 * time.Second {
			r.until(at)
			if err := r.execute(evictionOf(p, core.ByTaint)); !apierrors.IsTooManyRequests(err) { // by a new leader each time
				t.Fatalf("after %s: got error %v, want a refusal", at, err)
			}
			if r.livePod("web") == nil {
				t.Fatalf("after %s: the pod was deleted", at)
			}
		}
		r.until(r.settings.EvictionWait)
		if err := r.execute(evictionOf(p, core.ByTaint)); err != nil || r.livePod("web") != nil {
			t.Errorf("after %s: the pod was not deleted: %v", r.settings.EvictionWait, err)
		}
		if len(r.events) != 1 {
			t.Errorf("got %d events, want 1", len(r.events))
		}
	})
}

// TestEvictThenDelete_SurvivesConditionReset covers kube-controller-manager, which resets the pod's
// disruption condition after two minutes: the eviction does not start over.
func TestEvictThenDelete_SurvivesConditionReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.EvictionMethod = EvictThenDelete
		r.refuses = func(*corev1.Pod) error { return apierrors.NewTooManyRequests("budget", 0) }
		a := evictionOf(r.modelPod(r.pod("a", "web")), core.ByTaint)
		a.First = r.begun
		if err := r.execute(a); !apierrors.IsTooManyRequests(err) {
			t.Fatal(err)
		}
		r.setDisruption("web", corev1.ConditionFalse, r.begun.Add(2*time.Minute))
		r.until(r.settings.EvictionWait + 10*time.Second)
		if err := r.execute(a); err != nil || r.livePod("web") != nil {
			t.Errorf("after %s: the pod was not deleted: %v", time.Since(r.begun), err)
		}
	})
}

// TestEvictThenDelete_NewEvictionRestartsWait checks that an obsolete eviction has not used up the
// time of the next one.
func TestEvictThenDelete_NewEvictionRestartsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.EvictionMethod = EvictThenDelete
		r.refuses = func(*corev1.Pod) error { return apierrors.NewTooManyRequests("budget", 0) }
		a := evictionOf(r.modelPod(r.pod("a", "web")), core.ByTaint)
		r.setDisruption("web", corev1.ConditionTrue, r.begun)
		r.until(time.Hour)
		a.Due, a.First = time.Now().Add(-time.Second), time.Now()
		if err := r.execute(a); !apierrors.IsTooManyRequests(err) || r.livePod("web") == nil {
			t.Fatalf("the pod was deleted at once: %v", err)
		}
		since, marked := disruptedSince(r.livePod("web"))
		if !marked || !since.Equal(time.Now()) {
			t.Errorf("got disruption since %s, %v, want now", since, marked)
		}
	})
}

// setDisruption stores a pod's disruption condition.
func (r *env) setDisruption(name string, status corev1.ConditionStatus, at time.Time) {
	r.with(func() {
		p := r.objects["pods"]["default/"+name].DeepCopyObject().(*corev1.Pod)
		disrupted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: status, LastTransitionTime: metav1.NewTime(at)}
		if status == corev1.ConditionTrue {
			disrupted.Reason = reasonByTaint
		}
		p.Status.Conditions = append([]corev1.PodCondition{disrupted}, slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget
		})...)
		r.store("pods", p)
	})
}

func TestReadLease_ReportsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("a")
		read := func(node string) (time.Time, error) {
			x := r.task(New(r.settings, r.policy, r.parts()), &core.Action{Kind: core.ReadLease, Node: node})
			return x.readLease(r.t.Context())
		}
		if at, err := read("a"); err != nil || !at.Equal(r.begun) {
			t.Errorf("existing lease: got %s, %v", at, err)
		}
		if at, err := read("b"); err != nil || !at.IsZero() {
			t.Errorf("missing lease: got %s, %v", at, err)
		}
		for name, fault := range map[string]func(*http.Request) (*http.Response, error){
			"hanging server": hanging, "no server": refusing, "404 of a proxy": notFoundByAProxy, "busy server": busy,
		} {
			r.with(func() { r.fault = fault })
			began := time.Now()
			if at, err := read("a"); err == nil || !at.IsZero() {
				t.Errorf("%s: got %s, %v, want an error", name, at, err)
			}
			if took := time.Since(began); took > r.settings.RequestTimeout {
				t.Errorf("%s: the request took %s", name, took)
			}
		}
	})
}
