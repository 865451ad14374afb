package trial

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFill_JudgedUnlessLateForWantOfProcessor(t *testing.T) {
	f := Fill{Threshold: 100 * mib, Rate: 1000 * mib} // lasts 100 ms, of which a kill takes 50
	const ms = time.Millisecond
	for _, c := range []struct {
		about  string
		result Result
		want   bool
	}{
		{"evicted, late", Result{CheckGap: 70 * ms, Waited: 70 * ms}, true},
		{"OOM kill, checks on time", Result{OOMKills: 1, CheckGap: 40 * ms, Waited: 70 * ms}, true},
		{"OOM kill, late without a wait", Result{OOMKills: 1, CheckGap: time.Second, Waited: 10 * ms}, true},
		{"OOM kill, late by a wait", Result{OOMKills: 1, CheckGap: 60 * ms, Waited: 40 * ms}, false},
	} {
		if got := f.Judged(&c.result); got != c.want {
			t.Errorf("%s: judged %t, want %t", c.about, got, c.want)
		}
	}
}

func TestReads_LongestGapBetweenReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := watchReads(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	begun := time.Now()
	if gap := r.longestGap(begun, begun.Add(time.Minute)); gap != time.Minute {
		t.Errorf("without a read: %s", gap)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.longestGap(begun, begun.Add(time.Hour)) == time.Hour {
		<-tick.C
	}
	if gap := r.longestGap(begun, begun.Add(time.Hour)); gap <= 30*time.Minute {
		t.Errorf("after one read: %s", gap)
	}
}
