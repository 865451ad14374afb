package reflector_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// client-go limits the rate of errors by a clock that all tests share. The real year is in the
// future of virtual time, and would stop a reflector for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

var patience = reflector.Timeouts{List: 7 * time.Second, Open: 3 * time.Second, Pauses: wait.Backoff{Duration: time.Second, Steps: 1}}

// source responds as a test requires, and is also its own client.
type source struct {
	list    func(context.Context) (*corev1.PodList, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	streams bool // can send a list as events

	mu        sync.Mutex
	selectors []string
}

func (s *source) IsWatchListSemanticsUnSupported() bool { return !s.streams }

func (s *source) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	s.record(o)
	return s.list(ctx)
}

func (s *source) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.record(o)
	return s.watch(ctx, o)
}

func (s *source) record(o metav1.ListOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selectors = append(s.selectors, o.FieldSelector)
}

// pods returns a list of version 5 with the pod a.
func pods(context.Context) (*corev1.PodList, error) {
	return &corev1.PodList{
		ListMeta: metav1.ListMeta{ResourceVersion: "5"},
		Items:    []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "4"}}},
	}, nil
}

// quiet returns a watch without events.
func quiet(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// silent simulates a server that accepts connections and does not respond.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// result is a reported result and its time.
type result struct {
	after time.Duration
	err   error
}

// run runs a kind in virtual time for a duration and waits for its end. It returns the
// reported results and the content of the store.
func run(t *testing.T, s *source, duration time.Duration, change ...func(*reflector.Kind[*corev1.PodList])) (results []result, keys []string) {
	t.Helper()
	into := cache.NewStore(cache.MetaNamespaceKeyFunc)
	k := reflector.Kind[*corev1.PodList]{What: "pods", From: s, Example: &corev1.Pod{}, Into: into, Patience: patience}
	for _, c := range change {
		c(&k)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		ended := k.Run(ctx, s, func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				results = append(results, result{time.Since(start), err})
			}
		})
		<-time.After(duration)
		cancel()
		ended()
	})
	return results, into.ListKeys()
}

func TestKind_ListsAndWatches(t *testing.T) {
	for want, selector := range map[string]fields.Selector{"": nil, "spec.nodeName=n1": fields.OneTermEqualSelector("spec.nodeName", "n1")} {
		s := &source{list: pods, watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "6"}})
			return w, nil
		}}
		results, keys := run(t, s, time.Second, func(k *reflector.Kind[*corev1.PodList]) { k.Selector = selector })
		if len(keys) != 2 {
			t.Errorf("%q: stored %v, want a and b", want, keys)
		}
		if len(results) != 2 || results[0].err != nil || results[1].err != nil {
			t.Errorf("%q: results %v, want two without an error", want, results)
		}
		for _, got := range s.selectors {
			if got != want {
				t.Errorf("field selector %q, want %q", got, want)
			}
		}
	}
}

func TestKind_ReportsFaultsInTime(t *testing.T) {
	refused := errors.New("connection refused")
	for _, tc := range []struct {
		name   string
		list   func(context.Context) (*corev1.PodList, error)
		watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
		is     error  // the first fault
		text   string // or its text
		after  time.Duration
		stored int
	}{
		{name: "refused list", is: refused, watch: quiet,
			list: func(context.Context) (*corev1.PodList, error) { return nil, refused }},
		{name: "list without a version", is: reflector.ErrNoVersion, watch: quiet,
			list: func(context.Context) (*corev1.PodList, error) {
				return &corev1.PodList{Items: []corev1.Pod{{}}}, nil
			}},
		{name: "list without a response", is: context.DeadlineExceeded, after: patience.List, watch: quiet,
			list: func(ctx context.Context) (*corev1.PodList, error) { return nil, silent(ctx) }},
		{name: "refused watch", is: refused, stored: 1, list: pods,
			watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused }},
		{name: "watch without a response", text: "within 3s", after: patience.Open, stored: 1, list: pods,
			watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) { return nil, silent(ctx) }},
		{name: "watch that ends at once", text: "ended before", stored: 1, list: pods,
			watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil }},
	} {
		results, keys := run(t, &source{list: tc.list, watch: tc.watch}, patience.List+time.Millisecond)
		var fault result
		for _, w := range results {
			if fault.err == nil {
				fault = w
			}
		}
		switch {
		case fault.err == nil:
			t.Errorf("%s: no fault was reported", tc.name)
		case tc.is != nil && !errors.Is(fault.err, tc.is), !strings.Contains(fault.err.Error(), tc.text):
			t.Errorf("%s: reported %v", tc.name, fault.err)
		case fault.after != tc.after:
			t.Errorf("%s: reported after %v, want %v", tc.name, fault.after, tc.after)
		}
		if len(keys) != tc.stored {
			t.Errorf("%s: stored %v", tc.name, keys)
		}
	}
}

// The response arrives just after the timeout: no reader uses that watch.
func TestKind_StopsLateWatch(t *testing.T) {
	var watches []*watch.FakeWatcher
	s := &source{list: pods, watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		_ = silent(ctx)
		watches = append(watches, watch.NewFake())
		return watches[len(watches)-1], nil
	}}
	results, _ := run(t, s, patience.Open+time.Millisecond)
	if len(results) != 2 || results[1].err == nil {
		t.Errorf("results %v", results)
	}
	for _, w := range watches {
		if !w.IsStopped() {
			t.Error("an unused watch is open")
		}
	}
}

// An open watch has no bound, and its request ends with it.
func TestKind_EndsRequestOfStoppedWatch(t *testing.T) {
	const ends = 2 * time.Second // after the timeout of an unanswered request
	var checks atomic.Int32
	var once sync.Once
	s := &source{list: pods, watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		w := watch.NewFake()
		once.Do(func() {
			check := func(ended bool) func() {
				return func() {
					if checks.Add(1); (ctx.Err() != nil) != ended {
						t.Errorf("the request of the watch: %v; want ended %t", ctx.Err(), ended)
					}
				}
			}
			time.AfterFunc(patience.Open+ends-1, check(false))
			time.AfterFunc(patience.Open+ends, w.Stop) // by the server
			time.AfterFunc(patience.Open+ends+1, check(true))
		})
		return w, nil
	}}
	run(t, s, patience.Open+2*ends)
	if checks.Load() != 2 {
		t.Errorf("%d checks of the watch, want 2", checks.Load())
	}
}

func TestKind_FallsBackForOlderServer(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	s := &source{streams: true, list: pods, watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.SendInitialEvents != nil {
			return nil, invalid
		}
		return watch.NewFake(), nil
	}}
	results, keys := run(t, s, time.Second)
	if len(results) != 2 || results[0].err != nil || results[1].err != nil || len(keys) != 1 {
		t.Errorf("results %v, stored %v", results, keys)
	}
	s.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, invalid } // whatever the request
	if results, _ := run(t, s, time.Second); len(results) < 2 || results[1].err == nil {
		t.Errorf("a refused watch after a list: results %v, want an error", results)
	}
}

// Results after the end report no fault of the server, and no goroutine remains.
func TestKind_ReportsNothingAfterEnd(t *testing.T) {
	s := &source{list: func(ctx context.Context) (*corev1.PodList, error) { return nil, silent(ctx) }, watch: quiet}
	if results, _ := run(t, s, time.Second); len(results) != 0 {
		t.Errorf("results %v after the end, want none", results)
	}
}

func TestKind_PassesContextValues(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var values []any
		s := &source{
			list: func(ctx context.Context) (*corev1.PodList, error) {
				values = append(values, ctx.Value(key{}))
				return pods(ctx)
			},
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				values = append(values, ctx.Value(key{}))
				return quiet(ctx, o)
			},
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
		k := reflector.Kind[*corev1.PodList]{From: s, Example: &corev1.Pod{}, Into: cache.NewStore(cache.MetaNamespaceKeyFunc), Patience: patience}
		ended := k.Run(ctx, s, func(context.Context, error) {})
		synctest.Wait()
		cancel()
		ended()
		if len(values) != 2 || values[0] != "mine" || values[1] != "mine" {
			t.Errorf("values of a list and a watch: %v", values)
		}
	})
}
