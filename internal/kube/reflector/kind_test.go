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

// client-go limits the rate of errors by a clock that all tests share. The real year is the future
// of virtual time, and would stop a reflector for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

var patience = reflector.Patience{List: 7 * time.Second, Open: 3 * time.Second, Pauses: wait.Backoff{Duration: time.Second, Steps: 1}}

// source answers as a test requires, and is also its own client.
type source struct {
	list    func(context.Context) (*corev1.PodList, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	streams bool // can send a list as events

	mu        sync.Mutex
	selectors []string
}

func (s *source) IsWatchListSemanticsUnSupported() bool { return !s.streams }

func (s *source) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	s.asked(o)
	return s.list(ctx)
}

func (s *source) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.asked(o)
	return s.watch(ctx, o)
}

func (s *source) asked(o metav1.ListOptions) {
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

// word is a reported result and its time.
type word struct {
	after time.Duration
	err   error
}

// followed runs a kind in virtual time for a duration and waits for its end. It returns the
// reported results and the content of the store.
func followed(t *testing.T, s *source, lasts time.Duration, change ...func(*reflector.Kind[*corev1.PodList])) (told []word, held []string) {
	t.Helper()
	into := cache.NewStore(cache.MetaNamespaceKeyFunc)
	k := reflector.Kind[*corev1.PodList]{What: "pods", From: s, Example: &corev1.Pod{}, Into: into, Patience: patience}
	for _, c := range change {
		c(&k)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		ended := k.Run(ctx, s, func(ctx context.Context, err error) {
			if ctx.Err() == nil {
				told = append(told, word{time.Since(began), err})
			}
		})
		<-time.After(lasts)
		cancel()
		ended()
	})
	return told, into.ListKeys()
}

func TestAListIsTakenInAndWatched(t *testing.T) {
	for want, selector := range map[string]fields.Selector{"": nil, "spec.nodeName=n1": fields.OneTermEqualSelector("spec.nodeName", "n1")} {
		s := &source{list: pods, watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "6"}})
			return w, nil
		}}
		told, held := followed(t, s, time.Second, func(k *reflector.Kind[*corev1.PodList]) { k.Selector = selector })
		if len(held) != 2 {
			t.Errorf("%q: the store holds %v, not a and b", want, held)
		}
		if len(told) != 2 || told[0].err != nil || told[1].err != nil {
			t.Errorf("%q: of a list and a watch that went well was told %v", want, told)
		}
		for _, got := range s.selectors {
			if got != want {
				t.Errorf("asked for %q, not for %q", got, want)
			}
		}
	}
}

func TestFaultsAreToldInTime(t *testing.T) {
	refused := errors.New("connection refused")
	for _, tc := range []struct {
		name  string
		list  func(context.Context) (*corev1.PodList, error)
		watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
		is    error  // the first fault
		says  string // or its text
		after time.Duration
		holds int
	}{
		{name: "a list that is refused", is: refused, watch: quiet,
			list: func(context.Context) (*corev1.PodList, error) { return nil, refused }},
		{name: "what is no list", is: reflector.ErrNoVersion, watch: quiet,
			list: func(context.Context) (*corev1.PodList, error) {
				return &corev1.PodList{Items: []corev1.Pod{{}}}, nil
			}},
		{name: "a list that does not come", is: context.DeadlineExceeded, after: patience.List, watch: quiet,
			list: func(ctx context.Context) (*corev1.PodList, error) { return nil, silent(ctx) }},
		{name: "a watch that is refused", is: refused, holds: 1, list: pods,
			watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused }},
		{name: "a watch that is not answered", says: "within 3s", after: patience.Open, holds: 1, list: pods,
			watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) { return nil, silent(ctx) }},
		{name: "a watch that ended before it began", says: "ended before", holds: 1, list: pods,
			watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil }},
	} {
		told, held := followed(t, &source{list: tc.list, watch: tc.watch}, patience.List+time.Millisecond)
		var fault word
		for _, w := range told {
			if fault.err == nil {
				fault = w
			}
		}
		switch {
		case fault.err == nil:
			t.Errorf("%s: nothing was told", tc.name)
		case tc.is != nil && !errors.Is(fault.err, tc.is), !strings.Contains(fault.err.Error(), tc.says):
			t.Errorf("%s: told %v", tc.name, fault.err)
		case fault.after != tc.after:
			t.Errorf("%s: told after %v, not after %v", tc.name, fault.after, tc.after)
		}
		if len(held) != tc.holds {
			t.Errorf("%s: the store holds %v", tc.name, held)
		}
	}
}

// The response arrives just after the timeout: no reader uses that watch.
func TestAWatchThatIsLateIsStopped(t *testing.T) {
	var late []*watch.FakeWatcher
	s := &source{list: pods, watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		_ = silent(ctx)
		late = append(late, watch.NewFake())
		return late[len(late)-1], nil
	}}
	told, _ := followed(t, s, patience.Open+time.Millisecond)
	if len(told) != 2 || told[1].err == nil {
		t.Errorf("told %v", told)
	}
	for _, w := range late {
		if !w.IsStopped() {
			t.Error("a watch that nobody reads is open")
		}
	}
}

// An open watch has no bound, and its request ends with it.
func TestAWatchIsFreedWhenItIsStopped(t *testing.T) {
	const ends = 2 * time.Second // after the timeout of an unanswered request
	var looks atomic.Int32
	var once sync.Once
	s := &source{list: pods, watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		w := watch.NewFake()
		once.Do(func() {
			look := func(ended bool) func() {
				return func() {
					if looks.Add(1); (ctx.Err() != nil) != ended {
						t.Errorf("the request of the watch: %v; it should have ended: %t", ctx.Err(), ended)
					}
				}
			}
			time.AfterFunc(patience.Open+ends-1, look(false))
			time.AfterFunc(patience.Open+ends, w.Stop) // by the server
			time.AfterFunc(patience.Open+ends+1, look(true))
		})
		return w, nil
	}}
	followed(t, s, patience.Open+2*ends)
	if looks.Load() != 2 {
		t.Errorf("looked at the watch %d times", looks.Load())
	}
}

func TestAnOlderServerIsNoFault(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	s := &source{streams: true, list: pods, watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.SendInitialEvents != nil {
			return nil, invalid
		}
		return watch.NewFake(), nil
	}}
	told, held := followed(t, s, time.Second)
	if len(told) != 2 || told[0].err != nil || told[1].err != nil || len(held) != 1 {
		t.Errorf("told %v, holds %v", told, held)
	}
	s.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, invalid } // whatever the request
	if told, _ := followed(t, s, time.Second); len(told) < 2 || told[1].err == nil {
		t.Errorf("a watch of what was listed was refused, and told was %v", told)
	}
}

// Results after the end report no fault of the server, and no goroutine remains.
func TestTheEnd(t *testing.T) {
	s := &source{list: func(ctx context.Context) (*corev1.PodList, error) { return nil, silent(ctx) }, watch: quiet}
	if told, _ := followed(t, s, time.Second); len(told) != 0 {
		t.Errorf("told %v of a list that the caller ended", told)
	}
}

func TestRequestsCarryTheValuesOfTheCaller(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var carried []any
		s := &source{
			list: func(ctx context.Context) (*corev1.PodList, error) {
				carried = append(carried, ctx.Value(key{}))
				return pods(ctx)
			},
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				carried = append(carried, ctx.Value(key{}))
				return quiet(ctx, o)
			},
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
		k := reflector.Kind[*corev1.PodList]{From: s, Example: &corev1.Pod{}, Into: cache.NewStore(cache.MetaNamespaceKeyFunc), Patience: patience}
		ended := k.Run(ctx, s, func(context.Context, error) {})
		synctest.Wait()
		cancel()
		ended()
		if len(carried) != 2 || carried[0] != "mine" || carried[1] != "mine" {
			t.Errorf("a list and a watch carried %v", carried)
		}
	})
}
