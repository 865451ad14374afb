package podstatus

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrGone: the pod does not exist any more, or another one has its name. There
// is nobody left to be told of.
var ErrGone = errors.New("the pod is gone")

// An answer is what a request came to, as far as what follows differs.
type answer uint8

const (
	done      answer = iota
	gone             // what it was about does not exist
	changed          // somebody wrote in between: read again
	forbidden        // a right is missing
	refused          // another fault of this request: it is tried again
	absent           // the server does not answer, or asks for patience: everybody waits
)

// answers are the meanings of errors; the first that fits counts, and what fits
// none is refused.
var answers = []struct {
	is    func(error) bool
	means answer
}{
	{func(err error) bool { return err == nil }, done},
	{unheard, absent},
	{busy, absent},
	// A 404 without a Status is the word of something in between.
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

// unheard: no answer came, whatever the reason.
func unheard(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status)
}

// busy: the server as a whole has no time, or is not there behind what answers
// for it.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// otherUID: a patch that names the UID of another pod is refused as one that
// would change it: 422, with the field as its cause.
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

// namespaceEnds: nothing can be created any more in a namespace that is being
// deleted, 403.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 5 * time.Minute

// retryAfter is how long the server asks to be left alone, 0 if it does not.
func retryAfter(err error) time.Duration {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return 0
	}
	asked := time.Duration(status.Status().Details.RetryAfterSeconds) * time.Second
	return min(max(asked, 0), maxRetryAfter)
}

// causeMessage is the message of the first cause of a type, empty if there is
// none.
func causeMessage(err error, of metav1.CauseType) string {
	cause, _ := apierrors.StatusCause(err, of)
	return cause.Message
}
