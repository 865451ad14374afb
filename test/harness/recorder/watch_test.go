package recorder

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// expiring is a source with one more event in each list. Its first watch can not be resumed.
func expiring() *cache.ListWatch {
	var lists, watches atomic.Int32
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(lists.Add(1))}}
			for i := range lists.Load() {
				list.Items = append(list.Items, corev1.Event{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("event-", i)), ResourceVersion: fmt.Sprint(i + 1)}})
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			if watches.Add(1) == 1 {
				w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"})
			}
			return w, nil
		},
	}
}

// An expired watch of events is replaced by another one, which has lost none. That of another kind is an error: states may
// be missing.
func TestRecorder_ExpiredWatches(t *testing.T) {
	for what, fails := range map[string]bool{"events": false, "pods": true} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := &Recorder{cancel: cancel, nodes: map[string][]*Node{}, pods: map[types.UID][]*Pod{}, changed: make(chan struct{})}
		if err := b.follow(ctx, what, expiring()); err != nil {
			t.Fatal(err)
		}
		seen := func() bool { return len(b.EventsThat(func(*corev1.Event) bool { return true })) >= 2 }
		if err := b.Until(ctx, seen); (err != nil) != fails || ctx.Err() != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := b.Close(); (err != nil) != fails {
			t.Errorf("%s: closed with %v", what, err)
		}
	}
}
