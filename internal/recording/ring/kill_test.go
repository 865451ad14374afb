package ring

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// recordInto names the directory of the process to be killed.
const recordInto = "RING_TEST_RECORD_INTO"

// TestRecordUntilKilled is the process that TestRing_SurvivesKills kills.
func TestRecordUntilKilled(t *testing.T) {
	dir := os.Getenv(recordInto)
	if dir == "" {
		t.Skip("it is started by TestRing_SurvivesKills")
	}
	o := options()
	o.Dir = dir
	r := Start(o)
	os.Stdout.WriteString("recording\n") //nolint:errcheck // the reader is gone
	for n := 1; ; {
		if offer(r, n, !r.MeasurementsWait()) {
			n++
		}
	}
}

// TestRing_SurvivesKills kills a recording process at random moments (KILLS, 10 by default). What it
// has left is readable, whole, and within the bound.
func TestRing_SurvivesKills(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("KILLS"))
	if err != nil {
		kills = 10
	}
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, uint64(kills)))
	torn := 0
	for i := range kills {
		killOne(t, dir, time.Duration(r.Int64N(int64(60*time.Millisecond))))
		segments, err := List(dir)
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		for _, s := range segments {
			total += s.bytes
		}
		if total > MinSize {
			t.Fatalf("kill %d: %d bytes in %d segments, at most %d", i, total, len(segments), MinSize)
		}
		if len(segments) == 0 {
			continue // killed before the first write
		}
		data, err := segments[len(segments)-1].Read()
		if err != nil {
			t.Fatal(err)
		}
		checks, damage := readChecks(data)
		if damage.Any() {
			t.Fatalf("kill %d: %+v", i, damage)
		}
		torn += damage.Tail
		checkOrder(t, checks)
	}
	t.Logf("%d of %d kills tore a frame", torn, kills)
}

func killOne(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRecordUntilKilled$")
	cmd.Env = append(os.Environ(), recordInto+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Error(err)
	}
	<-time.After(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// checkOrder checks that no check is missing, except for those that are counted as lost.
func checkOrder(t *testing.T, checks []*recording.Check) {
	t.Helper()
	for i, c := range checks {
		if i > 0 && c.Seq != checks[i-1].Seq+1 {
			t.Fatalf("check %d follows %d", c.Seq, checks[i-1].Seq)
		}
	}
}
