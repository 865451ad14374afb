package podstatus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrGone means that the pod does not exist any more, or that another pod has its name. There is no
// pod to report on.
var ErrGone = errors.New("the pod is gone")

// answer is the class of a request's result, which determines the next step.
type answer uint8

const (
	done      answer = iota
	gone             // the object does not exist
	changed          // concurrent write: read again
	forbidden        // a right is missing
	refused          // another error of this request: it is retried
	absent           // the server does not answer, or asks for a pause: all requests wait
)

// answers classify errors. The first match counts; an error without a match is refused.
var answers = []struct {
	is    func(error) bool
	means answer
}{
	{func(err error) bool { return err == nil }, done},
	{unanswered, absent},
	{busy, absent},
	// A 404 without a Status comes from a proxy in between.
	{apierrors.IsUnexpectedServerError, refused},
	{apierrors.IsNotFound, gone},
	{otherUID, gone},
	{namespaceEnds, gone},
	{apierrors.IsConflict, changed},
	{apierrors.IsForbidden, forbidden},
	{apierrors.IsUnauthorized, forbidden},
}

func answerTo(err error) answer {
	for _, a := range answers {
		if a.is(err) {
			return a.means
		}
	}
	return refused
}

// unanswered reports whether no answer came, for whatever reason.
func unanswered(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status)
}

// busy reports whether the server as a whole is overloaded, or absent behind a proxy.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// ofThisRequest reports whether the server refused one request, and may accept those for other pods. An error of its store or
// of a webhook has status 500 too.
func ofThisRequest(err error) bool {
	return tooLarge(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
}

// refusal returns the answer to a request that the server refused.
func refusal(err error) Answer {
	return Answer{Refused, fmt.Sprintf("%.*s", maxDenied, err), retryAfter(err)}
}

// tooLarge reports whether the store refused an object for its size. It has no reason for that, only these texts (1.37.2).
func tooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "message larger than max"))
}

// otherUID reports whether a patch names the UID of another pod. The server refuses it as a change
// of the UID: 422, with the field as its cause.
func otherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// namespaceEnds reports a 403 because the namespace is being deleted: no object can be created in
// it.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// maxRetryAfter bounds the pause that a server may request.
const maxRetryAfter = 5 * time.Minute

// retryAfter returns the pause that the server requests, 0 if it requests none.
func retryAfter(err error) time.Duration {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return 0
	}
	asked := time.Duration(status.Status().Details.RetryAfterSeconds) * time.Second
	return min(max(asked, 0), maxRetryAfter)
}

// causeMessage returns the message of the first cause of a type, empty without one.
func causeMessage(err error, of metav1.CauseType) string {
	cause, _ := apierrors.StatusCause(err, of)
	return cause.Message
}
