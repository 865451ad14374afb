package chart_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobs ends every Job at once, in place of the controllers and nodes that these tests lack.
type jobs struct {
	failing atomic.Bool // they fail

	mu    sync.Mutex
	names []string
}

// runJobs ends Jobs until the test ends. The accounts of plimsoll-cleanup and plimsoll-test must have
// their rights before.
func (s *server) runJobs(t *testing.T) *jobs {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	j := &jobs{}
	watch, err := s.api.BatchV1().Jobs(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		for event := range watch.ResultChan() {
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != "ADDED" {
				continue
			}
			var rights error
			if hookAccess[job.Name] != nil {
				rights = s.eventually(ctx, func(ctx context.Context) error { return s.mayRun(ctx, job.Name) })
			}
			j.add(job.Name)
			if err := errors.Join(rights, s.end(ctx, job, j.failing.Load())); err != nil {
				t.Errorf("Job %s: %v", job.Name, err)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return j
}

func (j *jobs) add(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.names = append(j.names, name)
}

// ran returns the names of the Jobs since the previous call.
func (j *jobs) ran() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	names := j.names
	j.names = nil
	return names
}

func (s *server) end(ctx context.Context, job *batchv1.Job, failed bool) error {
	now := metav1.Now()
	done := job.DeepCopy()
	done.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &now, CompletionTime: &now, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}}
	if failed {
		done.Status = batchv1.JobStatus{Failed: 1, StartTime: &now, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "PodFailurePolicy"},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "PodFailurePolicy"},
		}}
	}
	_, err := s.api.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, done, metav1.UpdateOptions{})
	return err
}

// TestCleanup_ReportsBeforeDeadline checks that the Job ends after both steps of its command, which may take
// timeoutSeconds each. Then the command reports the nodes that did not answer.
func TestCleanup_ReportsBeforeDeadline(t *testing.T) {
	job := find[*batchv1.Job](t, needTool(t, "helm").made(t, `cleanup.timeoutSeconds=7`), "Job/plimsoll-cleanup")
	if args, got := job.Spec.Template.Spec.Containers[0].Args, *job.Spec.ActiveDeadlineSeconds; !slices.Contains(args, "--timeout=7s") || got != 2*7+30 {
		t.Errorf("deadline of %d s with the arguments %q", got, args)
	}
}
