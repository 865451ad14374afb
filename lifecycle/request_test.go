package lifecycle

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// TestRequestResult_OrdinaryRefusalsAreNoFailures covers an alert on failed requests: a
// cluster's ordinary refusals must not count as failures.
func TestRequestResult_OrdinaryRefusalsAreNoFailures(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	answer := func(err error) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return failure(err), nil }
	}
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	otherUID := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)
	otherUID.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}}
	for name, tc := range map[string]struct {
		fault func(*http.Request) (*http.Response, error)
		want  string
	}{
		"answered":            {nil, "ok"},
		"missing pod":         {answer(apierrors.NewNotFound(pods, "web")), "declined"},
		"changed pod":         {answer(apierrors.NewConflict(pods, "web", errors.New("modified"))), "declined"},
		"replaced pod":        {answer(otherUID), "declined"},
		"refusal by a budget": {answer(budget), "declined"},
		"forbidden":           {answer(apierrors.NewForbidden(pods, "web", errors.New("no"))), "failed"},
		"unauthorized":        {answer(apierrors.NewUnauthorized("no")), "failed"},
		"invalid pod":         {answer(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)), "failed"},
		"overloaded server":   {busy, "failed"},
		"internal error":      {answer(apierrors.NewInternalError(errors.New("etcd"))), "failed"},
		"404 of a proxy":      {notFoundByAProxy, "failed"},
		"connection refused":  {refusing, "failed"},
		"timeout":             {hanging, "failed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			r := newEnv(t)
			r.meters.Request = func(class, result string, _, _ time.Duration) { got = append(got, class+" "+result) }
			p := r.modelPod(r.pod("a", "web"))
			x := r.task(New(r.settings, r.policy, r.parts()), evictionOf(p, core.ByTaint))
			r.fault = tc.fault
			_, _ = x.readPod(t.Context())
			if strings.Join(got, ", ") != "evict "+tc.want {
				t.Errorf("%s: got %v, want evict %s", name, got, tc.want)
			}
		})
	}
}
