package healthz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reviewer is an API server with some valid tokens. It counts its reviews.
type reviewer struct {
	mu      sync.Mutex
	known   map[string]bool // tokens; true: may get everything
	away    bool
	hang    bool
	reviews int
}

func (v *reviewer) review(ctx context.Context, token, _ string) (authenticated, allowed bool, err error) {
	v.mu.Lock()
	v.reviews++
	away, hang := v.away, v.hang
	allowed, authenticated = v.known[token]
	v.mu.Unlock()
	if hang {
		<-ctx.Done()
		return false, false, ctx.Err()
	}
	if away {
		return false, false, errors.New("connection refused")
	}
	return authenticated, allowed, nil
}

func (v *reviewer) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reviews
}

// guarded returns a server with all endpoints and one failing check.
func guarded(v *reviewer) http.Handler {
	text := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }
	return New(Settings{
		Live:    []Check{{Name: "loop", Err: func() error { return errors.New("secret") }}},
		Metrics: http.HandlerFunc(text), Explain: http.HandlerFunc(text), Config: http.HandlerFunc(text),
		Access: NewAccess(v.review), Log: slog.New(slog.DiscardHandler),
	}).Handler()
}

func request(h http.Handler, path, token, from string) (status int, text string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from + ":1"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

func TestAccess_GuardsMetricsAndDetails(t *testing.T) {
	v := &reviewer{known: map[string]bool{"good": true, "weak": false}}
	h := guarded(v)
	guardedPaths := []string{"/metrics", "/explain?node=a", "/configz", "/livez?verbose", "/readyz?exclude=loop", "/livez/loop", "/readyz/ping"}
	for i, path := range guardedPaths {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "unknown": http.StatusUnauthorized, "weak": http.StatusForbidden} {
			if status, text := request(h, path, token, fmt.Sprintf("10.0.%d.1", i)); status != want || text != refusals[want]+"\n" {
				t.Errorf("%s with token %q: status %d, %q; want %d", path, token, status, text, want)
			}
		}
		if status, _ := request(h, path, "good", fmt.Sprintf("10.0.%d.1", i)); status == http.StatusUnauthorized || status == http.StatusForbidden {
			t.Errorf("%s with a good token: status %d", path, status)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, text := request(h, path, "", "10.0.0.1"); status != http.StatusInternalServerError || text != path[1:]+" check failed\n" {
			t.Errorf("%s without a token: status %d, %q: the reason requires authorization", path, status, text)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	answer := httptest.NewRecorder()
	if h.ServeHTTP(answer, r); answer.Header().Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
}

func TestAccess_ReviewsOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{known: map[string]bool{"good": true}}
		h := guarded(v)
		for range 100 {
			if status, _ := request(h, "/metrics", "good", "10.0.0.1"); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}
		if v.count() != 1 {
			t.Errorf("%d reviews within a minute, want 1", v.count())
		}
		<-time.After(grantFresh)
		delete(v.known, "good") // revoked
		if status, _ := request(h, "/metrics", "good", "10.0.0.1"); status != http.StatusUnauthorized {
			t.Errorf("a revoked token after a minute: status %d", status)
		}
	})
}

func TestAccess_GrantsOutliveAPIServerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{known: map[string]bool{"good": true, "late": true}}
		h := guarded(v)
		request(h, "/metrics", "good", "10.0.0.1")
		v.away = true
		if status, _ := request(h, "/metrics", "late", "10.0.0.2"); status != http.StatusServiceUnavailable {
			t.Errorf("a new token: status %d, want 503", status)
		}
		before, scrapes := v.count(), 0
		for start := time.Now(); time.Since(start) < grantStale-time.Minute; scrapes++ {
			if status, _ := request(h, "/metrics", "good", "10.0.0.1"); status != http.StatusOK {
				t.Fatalf("a token with a grant, after %s: status %d", time.Since(start), status)
			}
			<-time.After(time.Second)
		}
		if attempts := v.count() - before; attempts > int(grantStale/grantRetry) {
			t.Errorf("%d attempts for %d requests, want one in %s", attempts, scrapes, grantRetry)
		}
		<-time.After(2 * time.Minute)
		if status, _ := request(h, "/metrics", "good", "10.0.0.1"); status != http.StatusServiceUnavailable {
			t.Errorf("after %s without a review: status %d, want 503", grantStale, status)
		}
	})
}

// TestAccess_RandomTokensDoNotAmplify: requests with new tokens cost the API server a bounded
// number of reviews, and do not affect a client with a grant.
func TestAccess_RandomTokensDoNotAmplify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{known: map[string]bool{"good": true}}
		h := guarded(v)
		request(h, "/metrics", "good", "10.1.0.1")
		const seconds = 600
		for second := range seconds {
			for i := range 200 {
				from := fmt.Sprintf("10.0.%d.%d", i%4, i%50)
				if status, _ := request(h, "/metrics", fmt.Sprintf("%d-%d", second, i), from); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
					t.Fatalf("an invalid token: status %d", status)
				}
			}
			if status, _ := request(h, "/metrics", "good", "10.1.0.1"); status != http.StatusOK {
				t.Fatalf("a token with a grant: status %d", status)
			}
			<-time.After(time.Second)
		}
		if bound := seconds*reviewRate + reviewBurst + seconds; v.count() > bound {
			t.Errorf("%d reviews in %d s, want at most %d", v.count(), seconds, bound)
		}
	})
}

// TestAccess_LimitsReviewsPerSource: an address above its share uses nothing of the
// others' share.
func TestAccess_LimitsReviewsPerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{known: map[string]bool{"good": true}}
		h := guarded(v)
		for i := range 10000 {
			request(h, "/metrics", fmt.Sprint(i), "10.0.0.1")
		}
		if v.count() > sourceBurst {
			t.Errorf("%d reviews for one source at once", v.count())
		}
		if status, _ := request(h, "/metrics", "good", "10.0.0.2"); status != http.StatusOK {
			t.Errorf("another source: status %d", status)
		}
	})
}

// TestAccess_BoundsHangingReviews: the number of concurrent reviews and the duration of
// each are bounded.
func TestAccess_BoundsHangingReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{hang: true}
		h := guarded(v)
		start := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[int]int{}
		for i := range 50 {
			all.Go(func() {
				status, _ := request(h, "/metrics", fmt.Sprint(i), fmt.Sprintf("10.0.0.%d", i))
				mu.Lock()
				defer mu.Unlock()
				got[status]++
			})
		}
		all.Wait()
		if took := time.Since(start); took > reviewWait {
			t.Errorf("the last response took %s", took)
		}
		if v.count() != maxReviewing || got[http.StatusServiceUnavailable] != maxReviewing || got[http.StatusTooManyRequests] != 50-maxReviewing {
			t.Errorf("%d reviews; by status %v", v.count(), got)
		}
	})
}

// TestAccess_MemoryIsBounded: no sequence of requests makes a table exceed its bound.
func TestAccess_MemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		v := &reviewer{known: map[string]bool{}}
		a := NewAccess(func(ctx context.Context, token, path string) (bool, bool, error) {
			v.known[token] = random.IntN(2) == 0
			return v.review(ctx, token, path)
		})
		h := New(Settings{Metrics: http.NotFoundHandler(), Access: a, Log: slog.New(slog.DiscardHandler)}).Handler()
		for range 20000 {
			request(h, "/metrics", fmt.Sprint(random.IntN(5000)), fmt.Sprintf("10.%d.%d.1", random.IntN(20), random.IntN(256)))
			if random.IntN(2) == 0 {
				<-time.After(200 * time.Millisecond)
			}
			if len(a.grants.entries) > maxGrants || len(a.denials.entries) > maxDenials || len(a.sources.entries) > maxSources {
				t.Fatalf("%d grants, %d denials, %d sources", len(a.grants.entries), len(a.denials.entries), len(a.sources.entries))
			}
		}
		if len(a.grants.entries) != maxGrants || len(a.denials.entries) != maxDenials || len(a.sources.entries) != maxSources {
			t.Errorf("the bounds were not reached: %d grants, %d denials, %d sources", len(a.grants.entries), len(a.denials.entries), len(a.sources.entries))
		}
	})
}

func TestAccess_WithoutReviewRefuses(t *testing.T) {
	h := New(Settings{Metrics: http.NotFoundHandler(), Access: NewAccess(nil), Log: slog.New(slog.DiscardHandler)}).Handler()
	if status, _ := request(h, "/metrics", "any", "10.0.0.1"); status != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", status)
	}
}

func TestTable_EvictsLeastRecentlyUsed(t *testing.T) {
	now := time.Unix(0, 0)
	table := table[int, int]{max: 3}
	for i := range 3 {
		table.put(i, i, now.Add(time.Duration(i)))
	}
	table.get(0, now.Add(10))
	table.put(3, 3, now.Add(11))
	if table.get(1, now) != nil || table.get(0, now) == nil || table.get(3, now) == nil {
		t.Errorf("remaining entries: %v", table.entries)
	}
}
