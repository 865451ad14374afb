package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/stats"
)

// podTree is a tree of plain files with the cgroups of pods.
func podTree(t *testing.T, uids ...string) (cgroup.Hierarchy, *cgroup.PodPlaces) {
	t.Helper()
	h := cgroup.At(cgroup.V2, t.TempDir())
	for i, uid := range uids {
		dir := h.Dir("memory", "/kubepods/pod"+uid)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"memory.current": "1000\n", "memory.stat": fmt.Sprintf("anon %d\nfile 20\nshmem 7\ninactive_file 4\n", i+1), "pids.current": "9\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h, cgroup.NewPodPlaces(h, "/")
}

func TestUsageRecorder_MeasuresPods(t *testing.T) {
	h, places := podTree(t, "a", "b")
	pods := []signals.Pod{{UID: "a"}, {UID: "b"}, {UID: "without-cgroup"}, {UID: "c"}, {UID: "d"}, {UID: "e"}}
	states := map[string]client.PodState{"a": client.Evicted, "b": client.Gone, "without-cgroup": client.Ended, "c": client.Evicted, "d": client.Evicted, "e": client.Evicted}
	messages := map[string]string{"a": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. ", "c": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", "d": "moved"}
	object := func(uid string) (*corev1.Pod, bool) {
		message, known := messages[uid]
		return &corev1.Pod{Status: corev1.PodStatus{Message: message}}, known
	}
	u := &usageRecorder{pods: func() []signals.Pod { return pods }, state: func(uid string) client.PodState { return states[uid] }, object: object,
		breakdowns: stats.OpenBreakdowns(h, places), machine: stats.OpenMachineCounters(t.TempDir())}
	defer u.breakdowns.Close()
	u.noteDisks([]signals.Candidate{{Pod: &pods[0], Usage: &signals.Usage{EphemeralStorage: signals.Of[signals.Bytes](77)}}, {Pod: &pods[1], Usage: &signals.Usage{}}, {Pod: &pods[2]}})
	got := u.measure()
	if len(got.Pods) != 2 || len(got.Gone) != 0 || got.Node[recording.NodeOOMKills] != recording.Unknown {
		t.Fatalf("%+v", got)
	}
	for i, want := range []map[recording.Value]int64{
		{recording.WorkingSet: 996, recording.Anon: 1, recording.Shmem: 7, recording.Tasks: 9, recording.Swap: recording.Unknown, recording.Disk: 77, recording.OOMKills: recording.Unknown},
		{recording.Anon: 2, recording.Disk: recording.Unknown},
	} {
		for v, amount := range want {
			if got.Pods[i].Values[v] != amount {
				t.Errorf("pod %s: value %d is %d, want %d", got.Pods[i].Pod.UID, v, got.Pods[i].Values[v], amount)
			}
		}
	}
	pods = []signals.Pod{{UID: "new"}}
	got = u.measure()
	var ends []string
	for _, g := range got.Gone {
		ends = append(ends, g.Pod.UID+" "+g.End.String())
	}
	if want := []string{"a evicted for memory", "b deleted", "without-cgroup ended", "c evicted for a limit", "d evicted", "e evicted"}; !slices.Equal(ends, want) || len(got.Pods) != 0 {
		t.Errorf("gone: %v, want %v", ends, want)
	}
	if got = u.measure(); got.Gone != nil {
		t.Errorf("gone again: %+v", got.Gone)
	}
}

// A run without a check has a header from which the run can be replayed.
func TestOpenRecorder_DescribesTheRun(t *testing.T) {
	h, places := podTree(t)
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nnodeName: node-7\nrecordingDir: " + filepath.Join(t.TempDir(), "recording")))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Options: Options{Version: "1.2.3", Revision: "abc"}, config: c, log: slog.New(slog.NewTextHandler(io.Discard, nil)), node: &node{hierarchy: h, places: places}, policies: &policies{}}
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	machine := eviction.New(policy)
	synctest.Test(t, func(*testing.T) { // the wait of close does not end while the ring writes
		r := a.openRecorder(machine, limiter.New(c.Limits.Policy()))
		now := time.Now()
		r.Record(&agent.Outcome{Snapshot: &signals.Snapshot{At: now}}, &agent.Checker{Machine: machine, Trace: &agent.Trace{}})
		r.Decision(&agent.Decision{Time: now, Decision: agent.Armed}, now)
		r.close()
	})
	segments, err := ring.List(c.RecordingDir)
	if err != nil || len(segments) != 1 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	data, err := segments[0].Read()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	var state agent.State
	for reader, e := recording.NewReader(data), (*recording.Entry)(nil); ; {
		if e = reader.Next(); e == nil {
			break
		}
		switch {
		case e.Header != nil:
			kinds = append(kinds, "header "+e.Header.Node+" "+e.Header.Version)
			again, err := config.ParseFile(e.Header.Config)
			if err != nil || again.NodeName != "node-7" || again.RecordingDir != c.RecordingDir || e.Header.BootID == "" || e.Header.Kernel == "" || e.Header.SinceBoot == 0 || e.Header.CgroupVersion != 2 {
				t.Errorf("%+v, %v", e.Header, err)
			}
			if err := json.Unmarshal(e.Header.State, &state); err != nil || !state.Exact {
				t.Errorf("state %s, %v", e.Header.State, err)
			}
		case e.Check != nil:
			kinds = append(kinds, "check")
		case e.Usage != nil:
			kinds = append(kinds, "usage")
		case e.Decision != nil:
			kinds = append(kinds, "decision")
		}
	}
	if want := []string{"header node-7 1.2.3", "check", "decision"}; !slices.Equal(slices.DeleteFunc(kinds, func(k string) bool { return k == "usage" }), want) {
		t.Errorf("recorded %v, want %v", kinds, want)
	}
	if c.RecordingDir = ""; a.openRecorder(machine, nil) != nil {
		t.Error("recording without a directory")
	}
	if int64(config.MinRecordingSize) != ring.MinSize || int64(config.NewAgent().RecordingSize) != ring.DefaultSize {
		t.Error("the sizes of configuration and ring differ")
	}
}
