package whole

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// BenchmarkFootprint measures the cost of agent and controller as pods, idle and under
// pressure. Each measurement takes FOOTPRINT, by default ten minutes. The figures are in
// docs/internals/measurements.md.
func BenchmarkFootprint(t *testing.B) {
	period := 10 * time.Minute
	if text := os.Getenv("FOOTPRINT"); text != "" {
		var err error
		if period, err = time.ParseDuration(text); err != nil || period < time.Minute {
			t.Fatalf("FOOTPRINT=%s: not a duration of a minute at least", text)
		}
	}
	audit, err := recorder.NewAudit(t.TempDir(), account("agent"), account("controller"))
	if err != nil {
		t.Fatal(err)
	}
	s := newEnv(t, audit)
	s.buildImage()
	s.install(agentConfig(map[string]any{ // the default
		"monitoringPeriod": "10s", "evictionPressureTransitionPeriod": "5m", "volumeStatsAggPeriod": "1m",
		"garbageCollection": "auto", "localStorageLimits": "auto", "dryRun": false,
	}))
	for i := range 20 {
		s.run(requesting(cluster.Hog(fmt.Sprintf("idle-%d", i), "fill 2MiB"), 16*mib))
	}
	ballast := s.ballast()
	s.measure("idle", period)
	s.do(ballast, "fill "+s.allExcept(100*mib)+" at 500MiB/s")
	s.reported(memoryPressure)
	s.measure("under pressure", period)
}

func account(component string) string {
	return "system:serviceaccount:" + namespace + ":" + releaseName + "-" + component
}

// measure logs the consumption and the writes of each component in a period.
func (s *env) measure(what string, period time.Duration) {
	s.Helper()
	began, components := time.Now(), map[string]*usage{"agent": s.usageOf("agent"), "controller": s.usageOf("controller")}
	tick, end := time.NewTicker(time.Second), time.After(period)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
			for _, u := range components {
				u.sample(s)
			}
		case <-end:
			over = true
		}
	}
	elapsed := time.Since(began)
	for name, u := range components {
		s.Logf("%s, %s, %v: RSS mean %.1f MiB, maximum %.1f MiB, %.1f MiB of pages of files (%d samples); CPU %.2f ms/s; writes an hour: %s",
			what, name, elapsed.Round(time.Second), mean(u.rss)/mib, float64(slices.Max(u.rss))/mib, mean(u.files)/mib, len(u.rss),
			(u.cpu(s)-u.before)*1000/elapsed.Seconds(), s.writes(account(name), began, elapsed))
	}
}

// writes returns a user's writes since a time, by kind, scaled to an hour.
func (s *env) writes(user string, since time.Time, elapsed time.Duration) string {
	found := map[string]int{}
	for _, w := range s.rec.Writes(func(w *recorder.Write) bool {
		return w.User == user && w.At.After(since) && w.Changes()
	}) {
		found[w.Verb+" "+w.Resource]++
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		all = append(all, fmt.Sprintf("%s %.0f", kind, float64(found[kind])*time.Hour.Seconds()/elapsed.Seconds()))
	}
	return strings.Join(all, ", ")
}

// usage is the consumption of one process.
type usage struct {
	pid    int
	before float64 // seconds of processor time
	rss    []int64 // bytes
	files  []int64 // of them pages of the program's file
}

// usageOf begins to measure the only pod of a component.
func (s *env) usageOf(component string) *usage {
	s.Helper()
	pods := s.own(component)
	if len(pods) != 1 {
		s.Fatalf("%d pods of %s", len(pods), component)
	}
	pids, err := s.Node.Pod(&pods[0]).PIDs()
	s.must(err)
	for _, pid := range pids {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && string(name) == "plimsoll\n" {
			u := &usage{pid: pid}
			u.before = u.cpu(s)
			return u
		}
	}
	s.Fatalf("no %[2]s in %[1]v", pids, component)
	return nil
}

// cpu returns the process's CPU time in seconds.
func (u *usage) cpu(s *env) float64 {
	s.Helper()
	own, _, err := sandbox.CPUTime(u.pid)
	s.must(err)
	return own.Seconds()
}

// sample reads the resident set: proc_pid_statm(5), the second and third field, in pages.
func (u *usage) sample(s *env) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(u.pid), "statm"))
	s.must(err)
	for i, list := range []*[]int64{&u.rss, &u.files} {
		pages, err := strconv.ParseInt(strings.Fields(string(text))[i+1], 10, 64)
		s.must(err)
		*list = append(*list, pages*int64(os.Getpagesize()))
	}
}

func mean(values []int64) float64 {
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return float64(sum) / float64(len(values))
}
