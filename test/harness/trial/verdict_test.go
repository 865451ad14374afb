package trial

import (
	"errors"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// TestClassify_NotJudgedInGapOfSampler: a periodic check evicts in a step in which no sample is below the threshold.
func TestClassify_NotJudgedInGapOfSampler(t *testing.T) {
	begun := time.Now()
	kill := 30.0 // ms
	d := agent.Decision{Decision: agent.Evicted, Check: "periodic", Pod: "default/hog-1", Time: begun.Add(time.Second), KillTime: &kill}
	early := d
	early.Check = "early"
	for _, c := range []struct {
		about      string
		decision   agent.Decision
		left       int64 // at the last sample before the eviction
		late       time.Duration
		wantRegret int
	}{
		{"sampler on time", d, 140 * mib, sampleInterval, 1},
		{"late by less than the memory lasts", d, 140 * mib, 2 * sampleInterval, 1},
		{"late", d, 140 * mib, 300 * time.Millisecond, 0},
		{"on time, right above the threshold", d, regretThreshold + mib, sampleInterval, 0},
		{"early check", early, 140 * mib, 300 * time.Millisecond, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := &sampler{threshold: regretThreshold, left: c.left, last: c.decision.Time}
			s.add(s.last.Add(c.late), 140*mib)
			for s.last.Before(c.decision.Time.Add(time.Second)) { // until after the kill
				s.add(s.last.Add(sampleInterval), 140*mib)
			}
			r := regretRun{sampler: s, now: past{begun: begun}}
			if err := r.classify(c.decision); err != nil {
				t.Fatal(err)
			}
			row := r.row(&Step{})
			if row.Regrets != c.wantRegret || row.NotJudged != 1-c.wantRegret {
				t.Errorf("%d regrets, %d not judged", row.Regrets, row.NotJudged)
			}
			if err := checkJudged(r.rows); errors.Is(err, ErrNotJudged) != (c.wantRegret == 0) {
				t.Errorf("the trial: %v", err)
			}
		})
	}
}
