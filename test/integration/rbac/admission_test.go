package rbac_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// patience bounds every wait.
var patience = cluster.Patience(time.Minute)

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	cluster.Poll(t, patience, what, so)
}

func refusedByPolicy(answer string) bool {
	return strings.Contains(answer, "ValidatingAdmissionPolicy '"+policyName+"'")
}

// TestToken_WritesOnlyToOwnNode makes every write by the agent's own code with real tokens,
// at its own node and at another one.
func TestToken_WritesOnlyToOwnNode(t *testing.T) {
	y := newEnv(t)
	for _, caller := range []struct {
		name  string
		bound *authenticationv1.BoundObjectReference
	}{
		{"bound to a pod", y.own.toPod()},
		{"bound to a Node", y.own.toNode()},
		{"unbound", nil},
	} {
		t.Run(caller.name, func(t *testing.T) {
			client, r := listen(t, y.Bearer(token(t, y.admin, caller.bound)))
			for _, w := range writes {
				y.expect(t, w, client, r, y.own, caller.bound != nil)
				y.expect(t, w, client, r, y.other, caller.bound != nil && w.exception)
			}
		})
	}
	everyRightIsUsed(t)
	y.checkedTypes(t)
	t.Run("reviews of clients' tokens", y.reviews)
	t.Run("more than necessary", y.more)
	t.Run("the leader's lease", y.leader)
}

// expect makes a write and compares the server's answer.
func (y *env) expect(t *testing.T, w write, client kubernetes.Interface, r *recorder, at *place, allowed bool) {
	t.Helper()
	at.reset()
	if w.before != nil {
		w.before(at)
	}
	got := y.answer(t, w, client, r, at)
	switch {
	case allowed && !got.taken():
		t.Errorf("%s, at %s: refused: %s", w.what, at.node, got.body)
	case !allowed && (got.code != http.StatusForbidden || !refusedByPolicy(got.body)):
		t.Errorf("%s, at %s: not refused by the policy, but answered with %d: %s", w.what, at.node, got.code, got.body)
	}
}

// answer returns the server's answer to a write, or to a refused preceding one.
func (y *env) answer(t *testing.T, w write, client kubernetes.Interface, r *recorder, at *place) (got writing) {
	t.Helper()
	n := len(r.after(0))
	ctx, stop := context.WithTimeout(t.Context(), patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.do(ctx, client, y.own, at)
	}()
	defer func() { stop(); <-done }()
	want := w.right
	want.file = ""
	for {
		for _, seen := range r.after(n) {
			matching := seen.right
			if w.right.namespace == "" {
				matching.namespace = ""
			}
			if matching == want || !seen.taken() {
				return seen
			}
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			t.Fatalf("%s, at %s: the agent's code did not write; requests %v", w.what, at.node, r.after(n))
		}
	}
}

// everyRightIsUsed checks that every granted right is needed by a write here. Any other right
// is superfluous, or without a tested bound.
func everyRightIsUsed(t *testing.T) {
	t.Helper()
	for _, right := range ofAccount(theAgent) {
		for _, verb := range right.eachVerb() {
			if slices.Contains([]string{"get", "list", "watch"}, verb) || right.isReview() {
				continue
			}
			one := right
			one.verbs = verb
			if !slices.ContainsFunc(writes, func(w write) bool { return w.right == one }) {
				t.Errorf("%s grants %s %s in %q, and no write is tried with it: add it to the table of writes, and bound it in deploy/admission",
					right.file, verb, right.resource, right.namespace)
			}
		}
	}
}

// checkedTypes waits until the server has checked the policy's expressions against the types
// that it matches, and reads its warnings.
func (y *env) checkedTypes(t *testing.T) {
	t.Helper()
	policies := y.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	until(t, "the controller manager has checked the policy's types", func() bool {
		p, err := policies.Get(t.Context(), policyName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
			return false
		}
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s", w.FieldRef, w.Warning)
		}
		return true
	})
}
