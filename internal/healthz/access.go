package healthz

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Review asks the API server whether a bearer token is valid, and whether its user may get a path.
// It returns an error if the API server does not respond.
type Review func(ctx context.Context, token, path string) (authenticated, allowed bool, err error)

// Bounds of reviews. Requests without a right must cost the API server, and this
// program, a bounded amount.
const (
	grantFresh   = time.Minute      // for which a grant is not reviewed again
	grantRetry   = 10 * time.Second // between two attempts to review a grant again
	grantStale   = time.Hour        // for which a grant holds while the API server does not answer
	denialHolds  = 30 * time.Second // for which a refused token is not reviewed again
	maxGrants    = 64
	maxDenials   = 512
	maxSources   = 1024
	maxReviewing = 4 // at a time
	reviewWait   = 3 * time.Second

	reviewRate, reviewBurst = 10, 20  // new tokens per second, altogether
	sourceRate, sourceBurst = 0.1, 5. // new tokens per second, from one source
)

// Access authorises requests for metrics and details by reviews of their tokens, and caches the
// results. Its memory is bounded. It is safe for concurrent use.
type Access struct {
	review    Review
	reviewing chan struct{}

	mu      sync.Mutex
	all     bucket
	sources table[netip.Prefix, bucket]
	grants  table[question, grant]
	denials table[question, denial]
}

// NewAccess returns an Access without results. A nil review refuses every token.
func NewAccess(review Review) *Access {
	return &Access{
		review: review, reviewing: make(chan struct{}, maxReviewing),
		all:     bucket{rate: reviewRate, burst: reviewBurst},
		sources: table[netip.Prefix, bucket]{max: maxSources},
		grants:  table[question, grant]{max: maxGrants},
		denials: table[question, denial]{max: maxDenials},
	}
}

// question is the digest of a token and a path: tokens are not stored.
type question [sha256.Size]byte

func questionFor(token, path string) question { return sha256.Sum256([]byte(path + "\x00" + token)) }

// grant is a review that allowed a request.
type grant struct{ reviewed, tried time.Time }

// denial is a review that refused a request, with the HTTP status for it.
type denial struct {
	status int
	until  time.Time
}

// status returns http.StatusOK if the token may get the path, otherwise the HTTP status of the
// refusal.
func (a *Access) status(ctx context.Context, from netip.Prefix, token, path string) int {
	if token == "" || a.review == nil {
		return http.StatusUnauthorized
	}
	q := questionFor(token, path)
	status, known, decided := a.recall(q, from, time.Now())
	if decided {
		return status
	}
	select {
	case a.reviewing <- struct{}{}:
		defer func() { <-a.reviewing }()
	default:
		return busyStatus(known)
	}
	limited, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	authenticated, allowed, err := a.review(limited, token, path)
	switch {
	case err != nil && known:
		return http.StatusOK
	case err != nil:
		return http.StatusServiceUnavailable
	}
	return a.remember(q, authenticated, allowed, time.Now())
}

// busyStatus returns the status for a request that must not be reviewed at present.
func busyStatus(known bool) int {
	if known {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// recall returns the status that follows without a review, if decided. Otherwise known reports
// whether a grant holds as long as no review refuses it.
func (a *Access) recall(q question, from netip.Prefix, now time.Time) (status int, known, decided bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.grants.get(q, now); g != nil {
		switch age := now.Sub(g.reviewed); {
		case age < grantFresh, age < grantStale && now.Sub(g.tried) < grantRetry:
			return http.StatusOK, true, true
		case age < grantStale:
			g.tried = now
			return 0, true, false
		}
		a.grants.remove(q)
	}
	if d := a.denials.get(q, now); d != nil && now.Before(d.until) {
		return d.status, false, true
	}
	source := a.sources.get(from, now)
	if source == nil {
		source = a.sources.put(from, bucket{rate: sourceRate, burst: sourceBurst}, now)
	}
	// The source's own share comes first: above it, a source uses nothing of the others' share.
	if !source.tryTake(now) || !a.all.tryTake(now) {
		return http.StatusTooManyRequests, false, true
	}
	return 0, false, false
}

// remember stores the result of a review, and returns the status for it.
func (a *Access) remember(q question, authenticated, allowed bool, now time.Time) (status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if authenticated && allowed {
		a.denials.remove(q)
		a.grants.put(q, grant{reviewed: now, tried: now}, now)
		return http.StatusOK
	}
	if status = http.StatusForbidden; !authenticated {
		status = http.StatusUnauthorized
	}
	a.grants.remove(q)
	a.denials.put(q, denial{status, now.Add(denialHolds)}, now)
	return status
}

// refusals are the response texts for the results of [Access.status].
var refusals = map[int]string{
	http.StatusUnauthorized:       "a valid bearer token is needed",
	http.StatusForbidden:          "this token has no right to get this path: see docs/explanation/security.md",
	http.StatusTooManyRequests:    "too many new tokens: try again later",
	http.StatusServiceUnavailable: "the API server does not answer: the token can not be reviewed",
}

// guard passes authorised requests to next. A nil Access passes all requests.
func (a *Access) guard(path string, next http.Handler) http.Handler {
	next = underWay(next)
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := a.status(r.Context(), requestSource(r), bearer(r), path)
		if status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
		}
		http.Error(w, refusals[status], status)
	})
}

func requestSource(r *http.Request) netip.Prefix {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return sourceOf(net.TCPAddrFromAddrPort(remote))
}

// bearer returns the token of a request; empty if there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// table is a map of at most max entries: a further one replaces the least recently used entry.
type table[K comparable, V any] struct {
	max     int
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value V
	used  time.Time
}

// get returns the value of a key; nil if there is none.
func (t *table[K, V]) get(key K, now time.Time) *V {
	e := t.entries[key]
	if e == nil {
		return nil
	}
	e.used = now
	return &e.value
}

// put stores a value and returns its address.
func (t *table[K, V]) put(key K, value V, now time.Time) *V {
	if t.entries == nil {
		t.entries = make(map[K]*entry[V])
	}
	if _, there := t.entries[key]; !there && len(t.entries) >= t.max {
		t.removeOldest()
	}
	e := &entry[V]{value, now}
	t.entries[key] = e
	return &e.value
}

func (t *table[K, V]) remove(key K) { delete(t.entries, key) }

func (t *table[K, V]) removeOldest() {
	var oldest K
	var used time.Time
	first := true
	for key, e := range t.entries {
		if first || e.used.Before(used) {
			oldest, used, first = key, e.used, false
		}
	}
	delete(t.entries, oldest)
}
