package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// real is a real API server with an agent under RBAC.
type real struct {
	*cluster.Cluster
	admin kubernetes.Interface
	agent *rest.Config // with the rights in deploy/rbac/agent.yaml
}

func TestReporter_WorksOnRealAPIServer(t *testing.T) {
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	r := &real{Cluster: c, admin: admin}
	r.agent = r.account(t, "plimsoll-system", "plimsoll-agent")
	r.apply(t, "agent.yaml")
	r.apply(t, "agent-direct-eviction.yaml")
	r.namespace(t, "shop")
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *real){
			"status": r.and((*real).status), "rights": r.and((*real).rights), "precondition": r.and((*real).precondition),
			"queue": r.and((*real).queue), "lost answer": r.and((*real).lostAnswer), "dying namespace": r.and((*real).dyingNamespace),
			"longest name": r.and((*real).maxName), "mark": r.and((*real).mark), "eviction": r.and((*real).eviction),
			"eviction of another UID": r.and((*real).evictionOfAnother), "largest object": r.and((*real).largest),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, r)
			})
		}
	})
	t.Run("server hangs", func(t *testing.T) {
		r.outage(t, "hangs", r.APIServer.Pause, func(context.Context) error { return r.APIServer.Resume() })
	})
	t.Run("server dies", func(t *testing.T) { r.outage(t, "dies", r.APIServer.Kill, r.APIServer.Restart) })
}

// and returns a test of a method.
func (*real) and(test func(*real, *testing.T)) func(*testing.T, *real) {
	return func(t *testing.T, r *real) { test(r, t) }
}

func (r *real) apply(t *testing.T, file string) {
	t.Helper()
	if _, err := r.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "..", "deploy", "rbac", file)); err != nil {
		t.Fatal(err)
	}
}

func (r *real) namespace(t *testing.T, name string) {
	t.Helper()
	if err := r.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func (r *real) account(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	token, err := r.Token(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Bearer(token)
}

func (r *real) newReporter(t *testing.T, config *rest.Config) *harness {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, lines: &logcapture.Book{}}
	var mu sync.Mutex
	h.Reporter = New(apitest.From(client), "node-1", h.lines.Logger(), func(d []PendingStatus) {
		mu.Lock()
		defer mu.Unlock()
		h.saved = d
	}, Options{})
	return h
}

// run creates a pod with the status of a running one, and returns the notice of its eviction.
func (r *real) run(t *testing.T, name string, labels map[string]string) Notice {
	t.Helper()
	n := notice(name)
	made, err := r.admin.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.UID, n.Decided, n.ObservedGeneration = string(made.UID), time.Now(), made.Generation
	made.Status = running(n).Status
	made.Status.ContainerStatuses[0].Image, made.Status.ContainerStatuses[0].ImageID = "none", "none"
	if _, err := r.admin.CoreV1().Pods("shop").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *real) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := r.admin.CoreV1().Pods("shop").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (r *real) events(t *testing.T, n Notice) []corev1.Event {
	t.Helper()
	list, err := r.admin.CoreV1().Events(n.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + n.UID})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// maxWait bounds each wait. It stands for no property: on a busy machine a request can take its
// whole time limit, and its repetition waits as long again.
const maxWait = time.Minute

// awaitReported waits until nothing is pending.
func (h *harness) awaitReported() {
	h.t.Helper()
	deadline := time.After(maxWait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for h.PendingCount() > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			h.t.Fatalf("pending after %s: %+v\n%s", maxWait, h.Outstanding(), h.lines)
		}
	}
}

// expectReported checks the status and the events as kubectl and controllers see them.
func (r *real) expectReported(t *testing.T, n Notice, events int) {
	t.Helper()
	pod := r.pod(t, n.Name)
	s := pod.Status
	if s.Phase != corev1.PodFailed || s.Reason != "Evicted" || s.Message != n.Message {
		t.Errorf("got status %s, %s, %q", s.Phase, s.Reason, s.Message)
	}
	if len(s.Conditions) != 3 || len(s.ContainerStatuses) != 1 {
		t.Errorf("got conditions %+v, containers %+v, want 3 and 1", s.Conditions, s.ContainerStatuses)
	}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if i < 0 {
		t.Fatalf("got no DisruptionTarget in %+v", s.Conditions)
	}
	c := s.Conditions[i]
	if c.Status != "True" || c.Reason != "TerminationByKubelet" || c.Message != n.Message || c.ObservedGeneration != n.ObservedGeneration || c.ObservedGeneration == 0 {
		t.Errorf("got condition %+v", c)
	}
	if got := r.events(t, n); len(got) != events {
		t.Errorf("got %d events, want %d", len(got), events)
	}
}

// narrow creates an account with exactly these rights.
func (r *real) narrow(t *testing.T, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	rbac := r.admin.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "plimsoll-system", Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := r.account(t, "plimsoll-system", name)
	r.may(t, config, rules)
	return config
}

// may waits until the authorizer has the binding.
func (r *real) may(t *testing.T, config *rest.Config, rules []rbacv1.PolicyRule) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		resource, sub, _ := strings.Cut(rule.Resources[0], "/")
		r.allowed(t, client, rule.Verbs[0], resource, sub)
	}
}

func (r *real) status(t *testing.T) {
	h := r.newReporter(t, r.narrow(t, "only-patch", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}}))
	n := r.run(t, "status", nil)
	h.Enqueue(n)
	if err := h.Evicted(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.expectReported(t, n, 0)

	limit := r.run(t, "limit", nil)
	limit.DisruptionTarget, limit.Message = false, `Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `
	h.Enqueue(limit)
	if err := h.Evicted(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if s := r.pod(t, "limit").Status; s.Reason != "Evicted" || s.Message != limit.Message || len(s.Conditions) != 2 || !slices.ContainsFunc(s.Conditions, marks) {
		t.Errorf("got status %+v", s)
	}

	for _, name := range []string{"older", "never"} {
		other := notice(name)
		if name == "older" {
			r.run(t, name, nil)
		}
		h.Enqueue(other)
		if err := h.Evicted(t.Context(), other); !errors.Is(err, ErrGone) {
			t.Errorf("%s: got error %v, want ErrGone", name, err)
		}
	}
	if s := r.pod(t, "older").Status; s.Phase != corev1.PodRunning || len(s.Conditions) != 1 {
		t.Errorf("the status of a pod with another UID was changed: %+v", s)
	}
}

// largest reports a pod that its owner has made as large as the server permits, to the byte. Failed alone is stored.
func (r *real) largest(t *testing.T) {
	n := r.run(t, "largest", nil)
	pods := r.admin.CoreV1().Pods("shop")
	annotate := func(length int) error {
		_, err := pods.Patch(t.Context(), n.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"`+strings.Repeat("x", length)+`"}}}`), metav1.PatchOptions{})
		return err
	}
	large := r.pod(t, n.Name)
	for i := range 13 { // ephemeral containers can be added to a running pod
		large.Spec.EphemeralContainers = append(large.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: fmt.Sprintf("c%d", i), Image: "none", Command: []string{strings.Repeat("x", 110_000)}}})
	}
	if _, err := pods.UpdateEphemeralContainers(t.Context(), n.Name, large, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	refusedLength := sort.Search(250_000, func(length int) bool { return annotate(length) != nil })
	if err := annotate(refusedLength - 1); err != nil {
		t.Fatal(err)
	}
	h := r.newReporter(t, r.agent)
	h.Enqueue(n)
	if err := h.Evicted(t.Context(), n); err != nil {
		t.Error(err)
	}
	if s := r.pod(t, n.Name).Status; s.Phase != corev1.PodFailed || s.Reason != "" {
		t.Errorf("phase %s, reason %q", s.Phase, s.Reason)
	}
}

// marks reports whether the condition identifies a Failed pod of an agent.
func marks(c corev1.PodCondition) bool { return c.Type == Evicted && c.Status == corev1.ConditionTrue }

func (r *real) rights(t *testing.T) {
	h := r.newReporter(t, r.account(t, "plimsoll-system", "no-rights"))
	n := r.run(t, "rights", nil)
	h.Enqueue(n)
	if err := h.Evicted(t.Context(), n); !apierrors.IsForbidden(err) {
		t.Errorf("got error %v", err)
	}
	h.Commit(n.UID)
	defer h.run(nil)()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); h.lines.Count("deploy/rbac") < 2; <-tick.C { // to read pods, to create events
		if time.Now().After(deadline) {
			t.Fatalf("the missing rights were not logged:\n%s", h.lines)
		}
	}
	if h.PendingCount() != 1 {
		t.Errorf("got %d pending statuses", h.PendingCount())
	}
}

// precondition checks the preconditions of a late status.
func (r *real) precondition(t *testing.T) {
	h, n := r.newReporter(t, r.agent), r.run(t, "precondition", nil)
	seen, err := read(t.Context(), h.client, &n)
	if err != nil {
		t.Fatal(err)
	}
	seen.Status.ContainerStatuses[0] = runs("id-new", time.Now())
	if _, err := r.admin.CoreV1().Pods("shop").UpdateStatus(t.Context(), seen, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := patchPodStatus(t.Context(), h.client, &n, evicted(&n, seen.ResourceVersion)); answerTo(err) != changed {
		t.Errorf("container started in between: got error %v, want a conflict", err)
	}
	now := r.pod(t, "precondition")
	n.UID = "0a0b"
	if err := patchPodStatus(t.Context(), h.client, &n, evicted(&n, now.ResourceVersion)); answerTo(err) != gone {
		t.Errorf("another UID: got error %v, want ErrGone", err)
	}
	if now := r.pod(t, "precondition"); now.Status.Phase != corev1.PodRunning {
		t.Errorf("got phase %s, want Running", now.Status.Phase)
	}
}

func (r *real) queue(t *testing.T) {
	h := r.newReporter(t, r.narrow(t, "only-late",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}))
	late, again := r.run(t, "late", nil), r.run(t, "again", nil)
	restarted := r.pod(t, "again")
	restarted.Status.ContainerStatuses[0] = runs("id-new", time.Now().Add(time.Second))
	if _, err := r.admin.CoreV1().Pods("shop").UpdateStatus(t.Context(), restarted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []Notice{late, again} {
		h.Enqueue(n)
		h.Commit(n.UID)
	}
	defer h.run(nil)()
	h.awaitReported()
	r.expectReported(t, late, 1)
	if s := r.pod(t, "again").Status; s.Phase != corev1.PodRunning {
		t.Errorf("pod that runs again: got phase %s, want Running", s.Phase)
	}
	got := r.events(t, again)
	if len(got) != 1 {
		t.Fatalf("pod that runs again: got %d events, want 1", len(got))
	}
	e := got[0]
	if e.Reason != "Evicted" || e.Type != "Warning" || e.Message != again.Message || e.Annotations["starved_resource"] != "memory" ||
		e.ReportingController != "plimsoll" || e.Source.Component != "plimsoll" || e.Source.Host != "node-1" {
		t.Errorf("got event %+v", e)
	}
	if described, err := r.Kubectl(t.Context(), "-n", "shop", "describe", "pod", "late"); err != nil || !strings.Contains(described, "Evicted") || !strings.Contains(described, "plimsoll") {
		t.Errorf("kubectl describe: got error %v and\n%s", err, described)
	}
}

// losing drops the answers to the requests it passes on.
type losing struct {
	http.RoundTripper
	mu   sync.Mutex
	lost map[string]bool // verbs with one lost answer
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && r.Method != http.MethodGet && !l.lost[r.Method] {
		l.lost[r.Method] = true
		_ = answer.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return answer, err
}

func (r *real) lostAnswer(t *testing.T) {
	config := rest.CopyConfig(r.agent)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &losing{RoundTripper: next, lost: map[string]bool{}}
	})
	h, n := r.newReporter(t, config), r.run(t, "lost", nil)
	h.Enqueue(n)
	if err := h.Evicted(t.Context(), n); err == nil {
		t.Error("got no error without an answer")
	}
	version := r.pod(t, "lost").ResourceVersion
	h.Commit(n.UID)
	defer h.run(nil)()
	h.awaitReported()
	r.expectReported(t, n, 1)
	if now := r.pod(t, "lost").ResourceVersion; now != version {
		t.Errorf("the status was written again: version %s after %s", now, version)
	}
}

func (r *real) dyingNamespace(t *testing.T) {
	r.namespace(t, "dying")
	if err := r.admin.CoreV1().Namespaces().Delete(t.Context(), "dying", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h, n := r.newReporter(t, r.agent), notice("dying")
	n.Namespace = "dying"
	h.Enqueue(n)
	h.Commit(n.UID)
	n.Namespace, n.UID = "missing", "0c0d"
	h.Enqueue(n)
	h.Commit(n.UID)
	defer h.run(nil)()
	h.awaitReported()
	if h.lines.Count("its namespace is gone") != 2 || h.lines.Count("deploy/rbac") != 0 {
		t.Errorf("got log\n%s", h.lines)
	}
}

func (r *real) maxName(t *testing.T) {
	name := strings.Repeat("a", 235) + "-" + strings.Repeat("b", maxName-236)
	h, n := r.newReporter(t, r.agent), r.run(t, name, nil)
	h.Enqueue(n)
	h.Commit(n.UID)
	defer h.run(nil)()
	h.awaitReported()
	r.expectReported(t, n, 1)
}

func (r *real) mark(t *testing.T) {
	h, n := r.newReporter(t, r.agent), r.run(t, "mark", nil)
	soft, err := NewSoft(DefaultWay, h.client)
	if err != nil {
		t.Fatal(err)
	}
	if err := soft.Withdraw(t.Context(), n); err != nil {
		t.Errorf("nothing to withdraw: got error %v", err)
	}
	if got, err := soft.Request(t.Context(), n, 30); err != nil || got.Outcome != Asked {
		t.Fatalf("got %+v, error %v", got, err)
	}
	pod := r.pod(t, "mark")
	request, marked, err := Marked(pod)
	if err != nil || !marked || request.UID != n.UID || request.GracePeriodSeconds != 30 || !request.Since.Equal(n.Decided.Truncate(time.Second)) {
		t.Errorf("got %+v, %v, error %v", request, marked, err)
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.Conditions) != 2 {
		t.Errorf("got status %+v", pod.Status)
	}
	other := n
	other.UID = "0a0b"
	if got, err := soft.Request(t.Context(), other, 5); err != nil || got.Outcome != Gone {
		t.Errorf("another UID: got %+v, error %v", got, err)
	}
	if err := soft.Withdraw(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if c := r.pod(t, "mark").Status.Conditions; len(c) != 1 || c[0].Type != corev1.PodReady {
		t.Errorf("after Withdraw: got conditions %+v", c)
	}
}

// direct is the way for an agent with the right.
func (r *real) direct(t *testing.T) Soft {
	t.Helper()
	client, err := kubernetes.NewForConfig(r.agent)
	if err != nil {
		t.Fatal(err)
	}
	r.allowed(t, client, "create", "pods", "eviction")
	soft, err := NewSoft("direct", apitest.From(client))
	if err != nil {
		t.Fatal(err)
	}
	return soft
}

func (r *real) eviction(t *testing.T) {
	soft := r.direct(t)
	labels := map[string]string{"app": "guarded"}
	n, budgets := r.run(t, "guarded", labels), r.admin.PolicyV1().PodDisruptionBudgets("shop")
	one := intstr.FromInt32(1)
	b, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The budget is not processed yet, then exhausted, then available.
	if got, err := soft.Request(t.Context(), n, 30); err != nil || got.Outcome != Refused || got.RetryAfter != 10*time.Second {
		t.Errorf("budget not processed: got %+v, error %v", got, err)
	}
	allow := func(allowed int32) {
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 1 + allowed, DesiredHealthy: 1, ExpectedPods: 1 + allowed, DisruptionsAllowed: allowed}
		if b, err = budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow(0)
	if got, err := soft.Request(t.Context(), n, 30); err != nil || got.Outcome != Refused || !strings.Contains(got.Message, "guard needs 1 healthy") || got.RetryAfter != 0 {
		t.Errorf("budget exhausted: got %+v, error %v", got, err)
	}
	if pod := r.pod(t, "guarded"); pod.DeletionTimestamp != nil {
		t.Fatal("the pod was evicted against its budget")
	}
	allow(1)
	for range 2 { // repeating the request does not shorten the grace period
		if got, err := soft.Request(t.Context(), n, 30); err != nil || got != (Answer{Outcome: Evicting}) {
			t.Errorf("budget allows: got %+v, error %v", got, err)
		}
	}
	pod := r.pod(t, "guarded")
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds != 30 {
		t.Errorf("got deletion %v, grace period %v, want 30 s", pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
	}
	n = notice("never-was")
	if got, err := soft.Request(t.Context(), n, 30); err != nil || got.Outcome != Gone {
		t.Errorf("no such pod: got %+v, error %v", got, err)
	}
}

func (r *real) evictionOfAnother(t *testing.T) {
	soft, n := r.direct(t), r.run(t, "another", nil)
	n.UID = "0a0b"
	begun := time.Now()
	got, err := soft.Request(t.Context(), n, 30)
	t.Logf("refused after %s", time.Since(begun).Round(100*time.Millisecond))
	if err != nil || got.Outcome != Gone || r.pod(t, "another").DeletionTimestamp != nil {
		t.Errorf("got %+v, error %v", got, err)
	}
}

// outage stops the server before the status is reported; the next run reports it when the server is
// back. A hanging server may serve a request later.
func (r *real) outage(t *testing.T, name string, begin func() error, end func(context.Context) error) {
	h, n := r.newReporter(t, r.agent), r.run(t, name, nil)
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	h.Enqueue(n)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	// The connection to a dead server is refused or breaks. Only the context ends the wait for one that
	// hangs.
	var answer apierrors.APIStatus
	if err := h.Evicted(ctx, n); err == nil || errors.As(err, &answer) {
		t.Errorf("got error %v, want one without an answer of the server", err)
	}
	file, err := json.Marshal(h.saved)
	if err != nil {
		t.Fatal(err)
	}
	var previous []PendingStatus
	if err := json.Unmarshal(file, &previous); err != nil {
		t.Fatal(err)
	}
	successor := r.newReporter(t, r.agent)
	defer successor.run(previous)()
	for successor.PendingCount() == 0 {
		runtime.Gosched()
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	successor.awaitReported()
	t.Logf("reported %s after the server was back", time.Since(back).Round(10*time.Millisecond))
	r.expectReported(t, n, 1)
}

// allowed waits until the authorizer has a right.
func (r *real) allowed(t *testing.T, client kubernetes.Interface, verb, resource, sub string) {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: verb, Resource: resource, Subresource: sub},
	}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); <-tick.C {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed {
			return
		}
	}
	t.Fatalf("no right to %s %s/%s", verb, resource, sub)
}
