package agent

import "testing"

func TestProtectFromOOM_RecognizesScores(t *testing.T) {
	for text, want := range map[string]bool{
		"-1000\n": true, "-999\n": true, "-997\n": true, "-996\n": false, "0\n": false, "1000": false, "": false, "?": false,
	} {
		if got := killedLast(text); got != want {
			t.Errorf("oom_score_adj %q: killed last %v, want %v", text, got, want)
		}
	}
}
