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
	well = func() error { return nil }
	ill  = func() error {
		return errors.Join(errors.New("dial unix: no such file"), errors.New("dial tcp: refused"))
	}
)

func handler(live, ready []healthz.Check) http.Handler {
	return healthz.New(healthz.Settings{Live: live, Ready: ready, Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)}).Handler()
}

func ask(h http.Handler, method, path string) (status int, text string) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer.Code, answer.Body.String()
}

func TestAnswers(t *testing.T) {
	healthy := handler([]healthz.Check{{Name: "loop", Err: well}}, []healthz.Check{{Name: "memory", Err: well}})
	blind := handler([]healthz.Check{{Name: "loop", Err: well}}, []healthz.Check{{Name: "memory", Err: well}, {Name: "runtime", Err: ill}})
	telling := handler(nil, []healthz.Check{{Name: "notifications", Err: well, Note: func() string { return "psi\nevents" }}})
	hanging := handler([]healthz.Check{{Name: "loop", Err: ill}}, nil)
	const reason = "failed: dial unix: no such file; dial tcp: refused\n"
	for _, c := range []struct {
		name    string
		handler http.Handler
		path    string
		status  int
		text    string
	}{
		{"alive", healthy, "/livez", 200, "ok"},
		{"alive, in detail", healthy, "/livez?verbose", 200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"},
		{"ready", healthy, "/readyz", 200, "ok"},
		{"ready, in detail", healthy, "/readyz?verbose", 200, "[+]ping ok\n[+]loop ok\n[+]memory ok\nreadyz check passed\n"},
		{"alive but not ready", blind, "/livez", 200, "ok"},
		{"a failure is told in detail unasked", blind, "/readyz", 500, "[+]ping ok\n[+]loop ok\n[+]memory ok\n[-]runtime " + reason + "readyz check failed\n"},
		{"excluded", blind, "/readyz?exclude=runtime", 200, "ok"},
		{"excluded, in detail", blind, "/readyz?verbose&exclude=runtime&exclude=memory", 200,
			"[+]ping ok\n[+]loop ok\n[+]memory excluded: ok\n[+]runtime excluded: ok\nreadyz check passed\n"},
		{"excluding what is not there", healthy, "/livez?verbose&exclude=etcd", 200, "[+]ping ok\n[+]loop ok\nwarn: no check to exclude is called [\"etcd\"]\nlivez check passed\n"},
		{"who hangs is not ready", hanging, "/readyz", 500, "[+]ping ok\n[-]loop " + reason + "readyz check failed\n"},
		{"who hangs is not alive", hanging, "/livez", 500, "[+]ping ok\n[-]loop " + reason + "livez check failed\n"},
		{"what there is to know", telling, "/readyz?verbose", 200, "[+]ping ok\n[+]notifications ok: psi; events\nreadyz check passed\n"},
		{"one check", blind, "/readyz/memory", 200, "ok"},
		{"one check that fails", blind, "/readyz/runtime", 500, "[-]runtime " + reason},
		{"readiness is none of liveness", blind, "/livez/runtime", 404, "livez has no such check: see /livez?verbose\n"},
		{"nothing else", healthy, "/debug/pprof/", 404, "404 page not found\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, text := ask(c.handler, http.MethodGet, c.path); status != c.status || text != c.text {
				t.Errorf("%s: status %d, %q; want %d, %q", c.path, status, text, c.status, c.text)
			}
		})
	}
	for _, path := range []string{"/livez", "/readyz/memory", "/metrics"} {
		if status, _ := ask(healthy, http.MethodPost, path); status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d, want %d", path, status, http.StatusMethodNotAllowed)
		}
	}
}

func TestAFindingIsWhatWasFoundLast(t *testing.T) {
	var f healthz.Finding
	if f.Err() == nil {
		t.Error("all is well before anybody looked")
	}
	if f.Set(nil); f.Err() != nil {
		t.Errorf("found well, got %v", f.Err())
	}
	lost := errors.New("lost")
	if f.Set(lost); !errors.Is(f.Err(), lost) {
		t.Errorf("got %v, want %v", f.Err(), lost)
	}
	if f.Set(nil); f.Err() != nil {
		t.Errorf("found well again, got %v", f.Err())
	}
}

func TestAPulseGoesMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, limit = 10 * time.Second, 35 * time.Second
		p := healthz.NewPulse(period)
		pass := func(d time.Duration) { <-time.After(d) }
		if pass(limit); p.Err() != nil {
			t.Errorf("the first round has two periods and 15 s: %v", p.Err())
		}
		if pass(1); p.Err() == nil {
			t.Error("a loop that never went round is alive")
		}
		p.Beat()
		for range 5 {
			if pass(period); p.Err() != nil {
				t.Errorf("a loop that goes round is not alive: %v", p.Err())
			}
			p.Beat()
		}
		if pass(limit + 1); p.Err() == nil {
			t.Error("a loop that stopped is alive")
		}
	})
}

func TestTheLoopStoresWithoutAllocating(t *testing.T) {
	var f healthz.Finding
	p := healthz.NewPulse(time.Second)
	allocated := testing.AllocsPerRun(1000, func() {
		f.Set(nil)
		p.Beat()
	})
	if allocated != 0 {
		t.Errorf("storing allocates %.0f times", allocated)
	}
}

func TestAskingWhileTheLoopStores(t *testing.T) {
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
				if status, text := ask(h, http.MethodGet, "/livez"); status != 200 {
					t.Errorf("livez: %d, %s", status, text)
				}
				ask(h, http.MethodGet, "/readyz?verbose")
			}
		})
	}
	all.Wait()
	if f.Set(nil); f.Err() != nil {
		t.Error("the last finding is not the one that was stored last")
	}
}
