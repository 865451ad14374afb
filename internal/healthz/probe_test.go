package healthz_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/healthz"
)

var (
	passing = func() error { return nil }
	failing = func() error {
		return errors.Join(errors.New("dial unix: no such file"), errors.New("dial tcp: refused"))
	}
)

func handler(live, ready []healthz.Check) http.Handler {
	return healthz.New(healthz.Settings{Live: live, Ready: ready, Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}).Handler()
}

func request(h http.Handler, method, path string) (status int, text string) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer.Code, answer.Body.String()
}

func TestHandler_ReportsChecks(t *testing.T) {
	healthy := handler([]healthz.Check{{Name: "loop", Err: passing}}, []healthz.Check{{Name: "memory", Err: passing}})
	unready := handler([]healthz.Check{{Name: "loop", Err: passing}}, []healthz.Check{{Name: "memory", Err: passing}, {Name: "runtime", Err: failing}})
	noted := handler(nil, []healthz.Check{{Name: "notifications", Err: passing, Note: func() string { return "psi\nevents" }}})
	lenient := handler(nil, []healthz.Check{{Name: "config", Err: failing, Lenient: true}, {Name: "memory", Err: passing}})
	hanging := handler([]healthz.Check{{Name: "loop", Err: failing}}, nil)
	const reason = "failed: dial unix: no such file; dial tcp: refused\n"
	for _, c := range []struct {
		name    string
		handler http.Handler
		path    string
		status  int
		text    string
	}{
		{"alive", healthy, "/livez", 200, "ok"},
		{"alive, verbose", healthy, "/livez?verbose", 200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"},
		{"ready", healthy, "/readyz", 200, "ok"},
		{"ready, verbose", healthy, "/readyz?verbose", 200, "[+]ping ok\n[+]loop ok\n[+]memory ok\nreadyz check passed\n"},
		{"alive but not ready", unready, "/livez", 200, "ok"},
		{"not ready", unready, "/readyz", 500, "[+]ping ok\n[+]loop ok\n[+]memory ok\n[-]runtime " + reason + "readyz check failed\n"},
		{"excluded", unready, "/readyz?exclude=runtime", 200, "ok"},
		{"excluded, verbose", unready, "/readyz?verbose&exclude=runtime&exclude=memory", 200,
			"[+]ping ok\n[+]loop ok\n[+]memory excluded: ok\n[+]runtime excluded: ok\nreadyz check passed\n"},
		{"unknown exclusion", healthy, "/livez?verbose&exclude=etcd", 200, "[+]ping ok\n[+]loop ok\nwarn: no check to exclude is called [\"etcd\"]\nlivez check passed\n"},
		{"hanging, readiness", hanging, "/readyz", 500, "[+]ping ok\n[-]loop " + reason + "readyz check failed\n"},
		{"hanging, liveness", hanging, "/livez", 500, "[+]ping ok\n[-]loop " + reason + "livez check failed\n"},
		{"check with a note", noted, "/readyz?verbose", 200, "[+]ping ok\n[+]notifications ok: psi; events\nreadyz check passed\n"},
		{"lenient check", lenient, "/readyz", 200, "ok"},
		{"lenient check, verbose", lenient, "/readyz?verbose", 200, "[+]ping ok\n[-]config " + reason + "[+]memory ok\nreadyz check passed\n"},
		{"lenient check alone", lenient, "/readyz/config", 500, "[-]config " + reason},
		{"one check", unready, "/readyz/memory", 200, "ok"},
		{"one failing check", unready, "/readyz/runtime", 500, "[-]runtime " + reason},
		{"readiness check under liveness", unready, "/livez/runtime", 404, "livez has no such check: see /livez?verbose\n"},
		{"unknown path", healthy, "/debug/pprof/", 404, "404 page not found\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, text := request(c.handler, http.MethodGet, c.path); status != c.status || text != c.text {
				t.Errorf("%s: status %d, %q; want %d, %q", c.path, status, text, c.status, c.text)
			}
		})
	}
	for _, path := range []string{"/livez", "/readyz/memory", "/metrics"} {
		if status, _ := request(healthy, http.MethodPost, path); status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d, want %d", path, status, http.StatusMethodNotAllowed)
		}
	}
}

func TestFinding_ReturnsLatestError(t *testing.T) {
	var f healthz.Finding
	if f.Err() == nil {
		t.Error("no error before the first Set")
	}
	if f.Set(nil); f.Err() != nil {
		t.Errorf("got %v after Set(nil), want nil", f.Err())
	}
	lost := errors.New("lost")
	if f.Set(lost); !errors.Is(f.Err(), lost) {
		t.Errorf("got %v, want %v", f.Err(), lost)
	}
	if f.Set(nil); f.Err() != nil {
		t.Errorf("got %v after another Set(nil), want nil", f.Err())
	}
}

func TestPulse_FailsWithoutBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, limit = 10 * time.Second, 35 * time.Second
		p := healthz.NewPulse(period)
		pass := func(d time.Duration) { <-time.After(d) }
		if pass(limit); p.Err() != nil {
			t.Errorf("failed within two periods and 15 s: %v", p.Err())
		}
		if pass(1); p.Err() == nil {
			t.Error("no error without a first beat")
		}
		p.Beat()
		for range 5 {
			if pass(period); p.Err() != nil {
				t.Errorf("error despite beats: %v", p.Err())
			}
			p.Beat()
		}
		if pass(limit + 1); p.Err() == nil {
			t.Error("no error after the beats stopped")
		}
	})
}

func TestFinding_SetDoesNotAllocate(t *testing.T) {
	var f healthz.Finding
	p := healthz.NewPulse(time.Second)
	allocated := testing.AllocsPerRun(1000, func() {
		f.Set(nil)
		p.Beat()
	})
	if allocated != 0 {
		t.Errorf("Set and Beat allocate %.0f times, want 0", allocated)
	}
}

func TestHandler_ConcurrentWithUpdates(t *testing.T) {
	var f healthz.Finding
	p := healthz.NewPulse(time.Hour)
	h := handler([]healthz.Check{{Name: "loop", Err: p.Err}}, []healthz.Check{{Name: "memory", Err: f.Err}})
	lost := errors.New("lost")
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 2000 {
			p.Beat()
			if f.Set(nil); i%2 == 0 {
				f.Set(lost)
			}
		}
	})
	for range 4 {
		all.Go(func() {
			for range 200 {
				if status, text := request(h, http.MethodGet, "/livez"); status != 200 {
					t.Errorf("livez: %d, %s", status, text)
				}
				request(h, http.MethodGet, "/readyz?verbose")
			}
		})
	}
	all.Wait()
	if f.Set(nil); f.Err() != nil {
		t.Error("Err does not return the last stored result")
	}
}
