package simulate_test

import (
	"bytes"
	"errors"
	"flag"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

var worlds = flag.Int("worlds", 12, "number of random nodes that are recorded and replayed")

// A replay with the recorded configuration decides the same, byte for byte, over restarts of the
// agent, other layouts of disks, failed kills and withdrawn evictions.
func TestReplay_DecidesTheSame(t *testing.T) {
	var checks, acted, evicted, decisions, size int
	for seed := range uint64(*worlds) {
		w, data := recordedWorld(t, seed, 3, 2*time.Minute)
		replay := simulate.NewReplay(data)
		err := replay.Run(func(c *simulate.Repeated) error {
			if c.Check.Act != nil {
				acted++
			}
			if !bytes.Equal(c.Recorded, c.Replayed) {
				t.Fatalf("seed %d, at %s, exact %t:\nrecorded %s\nreplayed %s", seed, c.At, c.Exact, c.Recorded, c.Replayed)
			}
			return nil
		})
		s := replay.Summary
		if err != nil || s.Runs != 3 || s.Checks != s.Same || s.Damage != (recording.Damage{}) {
			t.Fatalf("seed %d: %v, %+v", seed, err, s)
		}
		checks, evicted, decisions, size = checks+s.Checks, evicted+w.evicted, decisions+w.decisions, size+len(data)
	}
	t.Logf("%d checks, %d of them considered pods, %d evictions, %d decisions, %d bytes", checks, acted, evicted, decisions, size)
	if acted < 50**worlds || evicted < 2**worlds {
		t.Errorf("only %d checks considered pods, with %d evictions: the worlds are too quiet", acted, evicted)
	}
}

// A replay that begins in the middle, or behind a gap, waits for a state, and says so.
func TestReplay_ContinuesBehindGaps(t *testing.T) {
	for seed := range uint64(10) {
		_, data := recordedWorld(t, seed, 1, 5*time.Minute)
		damaged := bytes.Clone(data)
		for i := range 40 {
			damaged[len(damaged)/3+i] ^= 0x55
		}
		replay := simulate.NewReplay(damaged)
		if err := replay.Run(func(c *simulate.Repeated) error {
			if c.Exact && !bytes.Equal(c.Recorded, c.Replayed) {
				t.Errorf("seed %d, at %s:\nrecorded %s\nreplayed %s", seed, c.At, c.Recorded, c.Replayed)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s := replay.Summary
		if s.Unknown+s.Damage.Undecoded == 0 || s.Same == 0 || s.Differ != 0 || s.Damage.Places != 1 || s.Checks != s.Same+s.Unknown+s.Approximate {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

func TestReplay_RefusesOtherData(t *testing.T) {
	for about, data := range map[string][]byte{"empty": nil, "text": []byte("apiVersion: plimsoll.dev/v1alpha1\nkind: NodeScenario\n")} {
		if err := simulate.NewReplay(data).Run(nil); !errors.Is(err, simulate.ErrNoRecording) {
			t.Errorf("%s: %v", about, err)
		}
	}
	e := recording.NewEncoder(recording.Header{Started: time.Now(), Version: "9", Config: []byte(`{"kind":"AgentConfiguration"}`)})
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate.NewReplay(data).Run(nil); err == nil || errors.Is(err, simulate.ErrNoRecording) {
		t.Errorf("a configuration of another version: %v", err)
	}
}
