package lifecycle

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// term is one period of leadership.
type term struct {
	ended <-chan struct{} // closed when the leadership is lost; nil: it cannot be lost
}

// over reports whether the leadership is lost.
func (t *term) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// elect runs for the leadership until ctx ends, again whenever it was lost, and returns
// a function that waits until it is released. Without elections this process leads.
func (c *Controller) elect(ctx context.Context) func() {
	if c.lock == nil {
		c.inbox.put(elected{term: &term{}})
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx := klog.NewContext(ctx, klog.Logger{}) // the link logs failures, not each attempt
		for ctx.Err() == nil {
			c.runFor(ctx)
		}
	}()
	return func() { <-done }
}

// runFor waits for the leadership, and returns when it is lost.
func (c *Controller) runFor(ctx context.Context) {
	s := &c.settings.Election
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, Name: s.Name, ReleaseOnCancel: true,
		LeaseDuration: s.LeaseDuration, RenewDeadline: s.RenewDeadline, RetryPeriod: s.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { c.inbox.put(elected{&term{ended: ctx.Done()}, c.lock.before()}) },
			OnStoppedLeading: c.inbox.wake,
		},
	})
	if err != nil { // the settings were not validated
		c.log.Error("Failed to run leader election, deciding nothing", "error", err)
		<-ctx.Done()
		return
	}
	elector.Run(ctx)
}

func (c *Controller) newLock() *lock {
	s := &c.settings.Election
	return &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
			Client:     c.parts.Electing.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.Identity},
		},
		link: c.link("the lease of the leader"), lasts: s.LeaseDuration,
	}
}

// lock is the lease of the leader. It records the last renewal by the former leader, and the end
// of the time in which no other process can lead.
type lock struct {
	resourcelock.Interface
	link  *link
	lasts time.Duration

	mu      sync.Mutex
	former  time.Time // renewal by the holder at the latest read
	renewed time.Time // start of our own latest successful renewal
}

// Get implements resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.observe(ctx, err)
	if err == nil {
		l.mu.Lock()
		l.former = record.RenewTime.Time
		l.mu.Unlock()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.hold(ctx, func() error { return l.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.hold(ctx, func() error { return l.Interface.Update(ctx, r) })
}

func (l *lock) hold(ctx context.Context, write func() error) error {
	began := time.Now()
	err := write()
	l.observe(ctx, err)
	if err == nil {
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()
	}
	return err
}

// observe passes failures on to the link. A missing lease and a conflict are none.
func (l *lock) observe(ctx context.Context, err error) {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	l.link.observe(ctx, err)
}

// before returns when the former leader renewed its lease last, by its own clock and
// not later than now; zero if there was none.
func (l *lock) before() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.former.After(now) {
		return now
	}
	return l.former
}

// holds reports whether no other process can have become the leader yet. It is checked
// before each write, because a process that was stopped for a while has not noticed
// yet. Without elections it is always true.
func (l *lock) holds(now time.Time) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	byTheWall := now.Round(0).Sub(l.renewed.Round(0)) // includes the sleep of a machine
	return max(now.Sub(l.renewed), byTheWall) < l.lasts
}
