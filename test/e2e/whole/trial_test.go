package whole

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/report/trial"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	trials "plimsoll.dev/plimsoll/test/harness/trial"
)

const (
	// trialThreshold is that of the disarmed agent and of the kubelet, in bytes of allocatableMemory.available.
	trialThreshold = 100 * mib
	// trialRest is the available memory between two steps, in bytes.
	trialRest = 170 * mib
	// trialHold bounds the time for which a step keeps its memory: the kubelet checks every 10 s.
	trialHold = 20 * time.Second
	// trialStep bounds a step. A file three times as large as the available memory is written and read on a loop device.
	trialStep = 10 * time.Minute
)

// TestNode_ReportsTrial runs the workload of `bin/bench -only regret` for DURATION beside a kubelet that evicts at the
// threshold of a disarmed agent. The records are exported as docs/how-to/arm-and-roll-out.md describes, and their
// report is compared with a count that does not use them: pods of the API server, the machine's counter of OOM kills, and
// available memory, sampled beside. The decisions are those of the agent's log. Each of them must have an amount below the
// threshold beside it, and each long time below the threshold a decision. DIR keeps the records and the report.
// Nothing else may exhaust memory of the machine meanwhile.
func TestNode_ReportsTrial(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("DURATION"))
	if err != nil || duration < time.Minute {
		t.Fatalf("DURATION=%s: not a duration of a minute at least: use make trial-report", os.Getenv("DURATION"))
	}
	s := newEnv(t, nil)
	s.must(s.Node.Reconfigure(t.Context(), map[string]any{"evictionHard": map[string]string{
		"allocatableMemory.available": fmt.Sprint(trialThreshold), "memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"}}))
	s.buildImage()
	s.install(agentConfig(map[string]any{
		"evictionHard":     map[string]any{"allocatableMemory.available": fmt.Sprint(trialThreshold), "nodefs.available": "0%", "nodefs.inodesFree": "0%", "pid.available": "0%"},
		"monitoringPeriod": "10s", "evictionPressureTransitionPeriod": "5m", "volumeStatsAggPeriod": "1m", // the default
		"garbageCollection": "auto", "localStorageLimits": "auto",
	}), map[string]any{"agent": map[string]any{"kernelLog": true}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.logs())
		}
	})
	s.idleCritical()
	innocent := s.run(requesting(writer("innocent"), 100*mib))
	s.do(innocent, "fill 60MiB")
	w := trialWorkload{env: s, innocent: innocent, draw: trials.Steps(1, "/volume", trialThreshold, trialHold)}
	s.recordWindow()
	memory := s.sampleAvailable()
	kills := s.machineKills()
	began := time.Now()
	for time.Since(began) < duration || w.ends == 0 {
		w.step()
	}
	took := time.Since(began)
	s.recordWindow()
	memory.stop()
	seen := s.countIndependently(began, memory, s.machineKills()-kills)
	t.Logf("%d steps in %s: the kubelet evicted %d pods, OOM kills of the kernel: %d, the agent's log has %d decisions, memory was below the threshold in %d s",
		w.steps, took.Round(time.Second), len(seen.evictions), seen.kills, len(seen.decisions), memory.secondsBelow())
	seen.check(t, s.trialReport(), took)
}

// trialWorkload is the innocent pod and the growing pod of a trial.
type trialWorkload struct {
	*env
	innocent *cluster.Pod
	draw     func(room int64) trials.Step
	hog      *cluster.Pod // nil: it has ended
	hogs     int
	ends     int // of hogs, by the kubelet or the kernel
	steps    int
}

// step runs one step. A hog that was evicted or killed has a successor in the next one.
func (w *trialWorkload) step() {
	w.Helper()
	if w.hog == nil && !w.replaceHog() {
		return
	}
	w.steps++
	began, step := time.Now(), w.draw(w.room())
	ctx, cancel := context.WithTimeout(w.Context(), trialStep)
	defer cancel()
	if step.Beside != "" {
		w.order(w.innocent, step.Beside)
		defer w.do(w.innocent, "fill 64KiB") // after it
	}
	if w.survives(w.hog.Do(ctx, step.Order)) {
		return
	}
	w.awaitEnd(began)
}

// replaceHog runs the next hog, and reports whether it lives.
func (w *trialWorkload) replaceHog() bool {
	w.Helper()
	w.hogs++
	// With a request the kubelet admits it under memory pressure, which is reported a little later than it begins.
	pod := requesting(writer(fmt.Sprintf("hog-%d", w.hogs)), mib)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	began := time.Now()
	w.hog = w.run(pod)
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if w.survives(w.hog.Do(ctx, fmt.Sprintf("fill %d", max(w.room()-trialRest, 0)))) {
		return true
	}
	w.awaitEnd(began)
	return false
}

// survives reports whether the hog lives after a command that had the given error.
func (w *trialWorkload) survives(err error) bool {
	w.Helper()
	if err != nil && !errors.Is(err, hog.ErrEnded) {
		w.Fatal(err)
	}
	return err == nil
}

// awaitEnd waits until the end of the hog is reported, and until the kubelet observes enough memory again: it would evict another
// pod by the statistics of the time before.
func (w *trialWorkload) awaitEnd(began time.Time) {
	w.Helper()
	hog := w.hog
	w.hog, w.ends = nil, w.ends+1
	w.until(hog.Object.Name+" has failed", func() bool {
		state := w.pod(hog)
		return state != nil && state.Status.Phase == corev1.PodFailed
	})
	if evicted(w.pod(hog)) {
		w.reportedSince(began, corev1.NodeMemoryPressure)
	}
	w.relieved()
}

// room returns the memory that pods can use before the kernel kills, in bytes.
func (w *trialWorkload) room() int64 {
	w.Helper()
	used, err := w.Node.Sandbox.Usage()
	w.must(err)
	for _, p := range []*cluster.Pod{w.innocent, w.hog} {
		cache, err := p.PageCache()
		w.must(err)
		used -= cache
	}
	return podsMemory - used
}

// recordWindow waits until the recording has a whole window beside a step: without it the outcome of the step is unknown.
func (s *env) recordWindow() {
	s.Helper()
	timer := time.NewTimer(trial.DefaultWindow + 20*time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// availableMemory is the memory that the working set of the pods leaves, in bytes, by the second.
type availableMemory struct {
	least, most map[int64]int64
	err         error
	end, ended  chan struct{}
}

// sampleAvailable samples the memory twenty times a second until stop.
func (s *env) sampleAvailable() *availableMemory {
	m := &availableMemory{least: map[int64]int64{}, most: map[int64]int64{}, end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				used, err := s.Node.Sandbox.WorkingSet()
				m.err = cmp.Or(m.err, err)
				m.note(now.Unix(), podsMemory-used)
			case <-m.end:
				return
			}
		}
	}()
	return m
}

func (m *availableMemory) note(second, available int64) {
	least, known := m.least[second]
	if !known {
		least = available
	}
	m.least[second], m.most[second] = min(least, available), max(m.most[second], available)
}

func (m *availableMemory) stop() {
	close(m.end)
	<-m.ended
}

// secondsBelow returns the number of seconds in which some sample is below the threshold.
func (m *availableMemory) secondsBelow() (n int) {
	for _, available := range m.least {
		if available < trialThreshold {
			n++
		}
	}
	return n
}

// below reports whether a sample is below an amount between two times.
func (m *availableMemory) below(amount int64, from, to time.Time) bool {
	for second := from.Unix(); second <= to.Unix(); second++ {
		if least, known := m.least[second]; known && least < amount {
			return true
		}
	}
	return false
}

// longBelow returns the times, of at least the given number of seconds, in which every sample is below the threshold.
func (m *availableMemory) longBelow(seconds int64) (spans [][2]time.Time) {
	var from, last int64
	end := func() {
		if from != 0 && last-from >= seconds {
			spans = append(spans, [2]time.Time{time.Unix(from, 0), time.Unix(last+1, 0)})
		}
	}
	for _, second := range slices.Sorted(maps.Keys(m.most)) {
		switch {
		case m.most[second] >= trialThreshold:
			continue
		case second != last+1:
			end()
			from = second
		}
		last = second
	}
	end()
	return spans
}

// machineKills returns the number of the machine's OOM kills. The counter of a cgroup ends with it.
func (s *env) machineKills() int64 {
	s.Helper()
	n, err := sandbox.MachineOOMKills()
	s.must(err)
	return n
}

// trialCount is what happened in a trial, without its records.
type trialCount struct {
	evictions map[string]time.Time // by the kubelet, by UID
	killed    []trialKill
	kills     int64
	decisions []trialDecision
	memory    *availableMemory
}

// trialDecision is a dry run, and its repetitions, which are at most two minutes apart.
type trialDecision struct {
	uid         string
	first, last time.Time
}

// trialKill is the end of a container with a process that the kernel killed.
type trialKill struct {
	uid, container string
	at             time.Time // whole seconds
}

// killedContainers returns the ends of containers that the kernel killed since a time, of every pod of the API server: also of
// those that were started again.
func (s *env) killedContainers(since time.Time) (all []trialKill) {
	known := map[string]bool{}
	for _, uid := range s.rec.PodUIDs() {
		states := s.rec.PodStates(uid)
		// A kubelet can report the end of an evicted pod's container before the reason.
		evictedOnce := slices.ContainsFunc(states, evicted)
		for _, state := range states {
			for _, c := range state.Status.ContainerStatuses {
				for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
					// The runtime's notice of an OOM kill can be later than that of the exit.
					killed := end != nil && (end.Reason == "OOMKilled" || end.ExitCode == 137 && !evictedOnce)
					if !killed || known[end.ContainerID] || end.FinishedAt.Time.Before(since.Truncate(time.Second)) {
						continue
					}
					known[end.ContainerID] = true
					all = append(all, trialKill{string(uid), end.ContainerID, end.FinishedAt.Time})
				}
			}
		}
	}
	return all
}

// countIndependently counts what happened.
func (s *env) countIndependently(began time.Time, memory *availableMemory, kills int64) *trialCount {
	s.Helper()
	s.must(memory.err)
	n := &trialCount{evictions: map[string]time.Time{}, killed: s.killedContainers(began), kills: kills, memory: memory}
	for _, p := range *s.cast {
		states := s.rec.PodStates(p.Object.UID)
		if i := slices.IndexFunc(states, evicted); i >= 0 {
			n.evictions[p.UID()] = states[i].At
		}
	}
	open := map[string]int{}
	for _, d := range s.decisions(s.agent()) {
		if d.Decision != agent.WouldEvict {
			continue
		}
		if i, known := open[d.UID]; known && d.Time.Sub(n.decisions[i].last) <= 2*time.Minute {
			n.decisions[i].last = d.Time
			continue
		}
		open[d.UID] = len(n.decisions)
		n.decisions = append(n.decisions, trialDecision{d.UID, d.Time, d.Time})
	}
	slices.SortFunc(n.decisions, func(a, b trialDecision) int { return cmp.Or(a.first.Compare(b.first), strings.Compare(a.uid, b.uid)) })
	return n
}

// trialReport exports the records of the node and returns their report. DIR keeps all of it.
func (s *env) trialReport() *trial.Report {
	s.Helper()
	dir := cmp.Or(os.Getenv("DIR"), s.TempDir())
	records := filepath.Join(dir, "records")
	s.must(os.MkdirAll(records, 0o755))
	keep := func(file, text string) { s.must(os.WriteFile(file, []byte(text), 0o600)) }
	a := s.agent()
	for file, args := range map[string][]string{
		".recording": {"recording", "export", "--begin=72h"},
		".jsonl":     {"recording", "decisions", "-o", "json"},
	} {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		output, err := s.Kubectl(ctx, append([]string{"--namespace=" + namespace, "exec", a.Object.Name, "--", "/plimsoll"}, args...)...)
		cancel()
		s.must(err)
		keep(filepath.Join(records, cluster.NodeName+file), output)
	}
	keep(filepath.Join(dir, "agent.log"), strings.Join(s.output(a), ""))
	report := &trial.Report{}
	for _, form := range []string{"text", "html", "json"} {
		output, err := s.execute(s.release.plimsoll, "report", "trial", "-o", form, records)
		if err != nil {
			s.Fatalf("plimsoll report trial: %v\n%s", err, output)
		}
		keep(filepath.Join(dir, "report."+form), output)
		switch form {
		case "text":
			s.Logf("plimsoll report trial\n%s", output)
		case "json":
			s.must(json.Unmarshal([]byte(output), report))
		}
	}
	return report
}

// check compares a report with the count.
func (n *trialCount) check(t *testing.T, r *trial.Report, took time.Duration) {
	t.Helper()
	if len(n.decisions) == 0 || len(n.evictions)+len(n.killed) == 0 {
		t.Error("a trial without a decision, or without an act of another, shows nothing")
	}
	if int64(len(n.killed)) != n.kills {
		t.Errorf("the API server has %d containers that the kernel killed, the kernel counts %d: %v", len(n.killed), n.kills, n.killed)
	}
	for what, counts := range map[string][2]int64{
		"decisions in dry run": {int64(r.Summary.DryRun.Total), int64(len(n.decisions))},
		"armed decisions":      {int64(r.Summary.Armed.Total), 0},
		"evictions by others":  {int64(r.Summary.Evictions.Total), int64(len(n.evictions))},
		"OOM kills":            {r.Summary.OOMKills.Total, n.kills},
	} {
		if counts[0] != counts[1] {
			t.Errorf("%s: the report has %d, counted are %d", what, counts[0], counts[1])
		}
	}
	if len(r.Missing) > 0 || len(r.Nodes) != 1 || r.Nodes[0].Checks < took.Seconds() || r.Nodes[0].Usages < took.Seconds() {
		t.Errorf("records do not cover the trial of %s: missing %q, nodes %+v", took, r.Missing, r.Nodes)
	}
	n.checkDecisions(t, r)
	for _, e := range r.Evictions {
		at, is := n.evictions[e.UID]
		if !is {
			t.Errorf("the kubelet did not evict %s: %+v", e.Pod, e)
			continue
		}
		same := slices.ContainsFunc(n.decisions, func(d trialDecision) bool { return d.uid == e.UID && d.near(at) })
		if same != (e.Outcome == trial.SamePod) || e.Resource != "memory" {
			t.Errorf("decided for the same pod is %t: %+v", same, e)
		}
	}
	rows := map[string]int64{}
	for _, k := range r.OOMKills {
		rows[k.UID] += k.Processes
		before := slices.ContainsFunc(n.decisions, func(d trialDecision) bool { return d.first.Before(k.Time) && d.near(k.Time) })
		after := !slices.ContainsFunc(n.decisions, func(d trialDecision) bool {
			return d.first.Before(k.Time.Add(-2*time.Second)) && d.near(k.Time)
		})
		if k.Outcome == trial.Despite || k.Outcome == trial.OwnLimit || k.Outcome == trial.Avoidable && !before || k.Outcome == trial.NotDecided && !after {
			t.Errorf("with a decision before it %t, without one two seconds before %t: %+v", before, after, k)
		}
	}
	for _, k := range n.killed {
		if rows[k.uid]--; rows[k.uid] < 0 {
			t.Errorf("the report lacks an OOM kill of the pod %s, as that at %v", k.uid, k.at)
		}
	}
}

// checkDecisions compares the rows of decisions with the count, and the decisions with the memory.
func (n *trialCount) checkDecisions(t *testing.T, r *trial.Report) {
	t.Helper()
	outcomes := map[trial.Outcome]int{}
	for i, row := range r.Decisions {
		outcomes[row.Outcome]++
		if i >= len(n.decisions) {
			t.Errorf("the agent's log does not have %+v", row)
			continue
		}
		d := n.decisions[i]
		if row.UID != d.uid || row.Time.Sub(d.first).Abs() > time.Second {
			t.Fatalf("decision %d is about %s at %v: %+v", i, d.uid, d.first, row)
		}
		if why := n.contradicts(d, &row); why != "" {
			t.Errorf("%s: %+v", why, row)
		}
		// Memory can fall by this much between a sample and the check, or recover.
		if !n.memory.below(trialThreshold+64*mib, d.first.Add(-3*time.Second), d.first.Add(time.Second)) {
			t.Errorf("no sample near %v is below the threshold: %+v", d.first, row)
		}
	}
	dry := r.Summary.DryRun
	for outcome, count := range map[trial.Outcome]int{trial.SamePod: dry.SamePod, trial.AnotherPod: dry.AnotherPod, trial.OOMKill: dry.OOMKill,
		trial.PlimsollOnly: dry.PlimsollOnly, trial.Withdrawn: dry.Withdrawn, trial.Unknown: dry.Unknown} {
		if outcomes[outcome] != count {
			t.Errorf("%d rows have the outcome %s, the summary counts %d", outcomes[outcome], outcome, count)
		}
	}
	for _, span := range n.memory.longBelow(15) {
		decided := func(d trialDecision) bool {
			return d.first.Before(span[1].Add(10*time.Second)) && d.last.After(span[0].Add(-2*time.Minute))
		}
		if !slices.ContainsFunc(n.decisions, decided) {
			t.Errorf("no decision while memory was below the threshold from %v to %v", span[0], span[1])
		}
	}
}

// near reports whether something happened in the window of a decision.
func (d *trialDecision) near(at time.Time) bool {
	return !at.Before(d.first.Add(-trial.DefaultWindow)) && !at.After(d.last.Add(trial.DefaultWindow))
}

// contradicts returns why the outcome of a decision cannot be; empty if it can. The API server has the second of an OOM kill: one
// close to the decision may be before or after it.
func (n *trialCount) contradicts(d trialDecision, row *trial.Decision) string {
	evictions, possible, certain := 0, 0, 0 // in the window
	for _, at := range n.evictions {
		if d.near(at) {
			evictions++
		}
	}
	killed := func(at time.Time) (possible, certain bool) {
		return d.near(at) && at.Add(time.Second).After(d.first), d.near(at.Add(time.Second)) && at.After(d.first.Add(time.Second))
	}
	ownKill := false // at about the time of the decision
	for _, k := range n.killed {
		is, must := killed(k.at)
		if is {
			possible++
		}
		if must {
			certain++
		}
		ownKill = ownKill || k.uid == d.uid && is && !must
	}
	at, own := n.evictions[d.uid]
	switch own = own && d.near(at); row.Outcome {
	case trial.SamePod:
		if !own {
			return "the kubelet did not evict this pod"
		}
	case trial.AnotherPod:
		if own || evictions == 0 {
			return "the kubelet evicted this pod, or none"
		}
	case trial.OOMKill:
		if own || possible == 0 {
			return "the kubelet evicted this pod, or the kernel killed nothing"
		}
	case trial.PlimsollOnly:
		others := slices.ContainsFunc(n.decisions, func(other trialDecision) bool {
			return other != d && other.first.Before(d.last.Add(2*trial.DefaultWindow))
		})
		if own || certain > 0 || evictions > 0 && !others {
			return fmt.Sprintf("%d evictions by the kubelet and %d OOM kills are near", evictions, certain)
		}
	case trial.Unknown:
		if !ownKill {
			return "the pod was not killed at about the time of the decision"
		}
	default:
		return "an outcome that is not in this trial"
	}
	return ""
}
