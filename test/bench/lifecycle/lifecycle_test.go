package main

import (
	"context"
	"math"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

func TestSpread_Formats(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want string
	}{
		{nil, "0.000"},
		{[]float64{2}, "2.00"},
		{[]float64{3, 1, 20}, "3.00 (1.00-20.0)"},
		{[]float64{-150, 0.5}, "0.500 (-150-0.500)"},
	} {
		if got := spreadOf(slices.Clone(c.of)).String(); got != c.want {
			t.Errorf("%v: %s, want %s", c.of, got, c.want)
		}
	}
}

// TestTimes_ReportsLowerBounds checks that a ratio to a value below the resolution is reported as a lower bound.
func TestTimes_ReportsLowerBounds(t *testing.T) {
	for _, c := range []struct {
		first, second, blur float64
		want                string
	}{
		{100, 4, 1, "25.0"},
		{100, 4, 5, "> 20.0"},
		{100, -4, 5, "> 20.0"},
		{100, -4, 0, "-"},
		{3, 4, 5, "-"},
	} {
		if got := times(c.first, c.second, c.blur); got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// made returns a measurement in which an idle second costs 10 ms, and each renewal 0.04 ms more.
func made(name string, decoding bool, extra float64) measurement {
	cost := func(renewals int) used {
		return used{Seconds: 10, Leases: 10 * renewals, CPU: 10 * (10 + extra + 0.04*float64(renewals)), Bytes: uint64(10 * 500 * renewals)}
	}
	return measurement{Name: name, Decoding: decoding, Size: fakeapiserver.Size{Nodes: 1000}, Idle: cost(100), Busy: cost(2100)}
}

func TestBeyond_SubtractsDecoding(t *testing.T) {
	all := series{made("ours", false, 5), made("ours", true, 1), made("ours", false, 6), made("ours", true, 1.5), made("theirs", false, 100)}
	minute, renewal := idleMinute[0].of, eachRenewal[0].of
	if got := all.of("ours", false, minute); len(got) != 2 || math.Abs(got[0]-60*(10+5+4)) > 1e-9 {
		t.Errorf("an idle minute: %v", got)
	}
	if got := all.of("ours", false, renewal); math.Abs(got[0]-40) > 1e-9 {
		t.Errorf("µs a renewal: %v", got)
	}
	if got := all.of("ours", false, eachRenewal[1].of); math.Abs(got[0]-500) > 1e-9 {
		t.Errorf("bytes a renewal: %v", got)
	}
	own, blur := all.beyond("ours", minute)
	if math.Abs(own.minimum-60*4) > 1e-9 || math.Abs(own.maximum-60*4.5) > 1e-9 || math.Abs(blur-60*0.5) > 1e-9 {
		t.Errorf("without decoding: %+v, blurred by %v", own, blur)
	}
	if n := len(ofSize(all, 1000)); n != 5 || len(ofSize(all, 5)) != 0 {
		t.Errorf("got %d measurements of the size", n)
	}
}

func TestLateness_CountsMissedNodes(t *testing.T) {
	at := time.Unix(1000, 0)
	silent := map[int]time.Time{1: at, 2: at.Add(time.Second), 3: at}
	unknown := map[string]time.Time{fakeapiserver.NodeName(1): at.Add(52 * time.Second), fakeapiserver.NodeName(2): at.Add(51500 * time.Millisecond)}
	late, missed := lateness(silent, unknown, 50*time.Second)
	if !slices.Equal(late, []float64{2, 0.5}) || missed != 1 {
		t.Errorf("late %v, missed %d", late, missed)
	}
}

// TestRoles_ReceiveEverything checks that both roles of this program receive everything, over the network and
// within the process, and continue while the kubelets renew.
func TestRoles_ReceiveEverything(t *testing.T) {
	for name, role := range roles {
		for _, within := range []bool{false, true} {
			c := fakeapiserver.New(fakeapiserver.Size{Nodes: 40, Images: 3, Pods: 5})
			s, err := c.Serve(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			clients, err := client.Dial(client.Options{Kubeconfig: s.Kubeconfig})
			if err != nil {
				t.Fatal(err)
			}
			if within {
				clients.Watching = inside{clients.Watching, c}
			}
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			go c.Live(ctx)
			c.Pace(50)
			err = listening(ctx, role, clients, func() error {
				for c.Beats().Leases < 100 {
					if _, err := shareOver(ctx, time.Millisecond, c); err != nil {
						return err
					}
				}
				return caughtUp(ctx, c)
			})
			if calls := c.Calls(); err != nil || calls["WATCH leases"] != 2 || calls["WATCH nodes"] != 1 || calls["WATCH pods"] != 1 {
				t.Errorf("%s, within the process %v: %v; calls %v", name, within, err, calls)
			}
			end()
			s.Close()
		}
	}
}

// TestWindow_MeasuresConsumption checks that a window reports the consumption of a process, and the number of its
// renewals.
func TestWindow_MeasuresConsumption(t *testing.T) {
	address, err := serveStatistics()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{pid: os.Getpid(), address: address}
	c := fakeapiserver.New(fakeapiserver.Size{Nodes: 10})
	go c.Live(t.Context())
	c.Pace(100)
	if err := p.collect(); err != nil {
		t.Fatal(err)
	}
	var u used
	for err == nil && u.Leases < 10 { // the machine may be slow
		u, err = window(t.Context(), 300*time.Millisecond, p, c)
	}
	if err != nil || u.CPU <= 0 || u.Bytes == 0 || u.Objects == 0 || u.Seconds < 0.3 {
		t.Errorf("%+v, %v", u, err)
	}
	r, err := p.read()
	if err != nil || r.resident < 1<<20 || r.memory.HeapAlloc == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSampler_MeasuresNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSampler()
		<-time.After(time.Second)
		synctest.Wait()
		if stalled := w.end(); stalled != 0 {
			t.Errorf("got an interruption of %v s, want none", stalled)
		}
	})
}
