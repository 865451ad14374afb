package whole

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// buildClient builds kubectl-plimsoll.
func (s *env) buildClient() {
	s.Helper()
	dir := s.TempDir()
	s.release.client = filepath.Join(dir, "kubectl-plimsoll")
	if s.release.packaged != "" {
		s.unpackProgram(s.release.packaged, "kubectl-plimsoll", dir)
		return
	}
	built, err := cluster.Prebuilt(dir, "kubectl-plimsoll")
	if s.must(err); !built {
		s.build("go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+tag, "-o", s.release.client, "../../../cmd/kubectl-plimsoll")
	}
}

// clientReachesAgent checks that the client shows the node live and exports its recording, by commands in the agent's pod.
func (s *env) clientReachesAgent() {
	pod := s.run(cluster.Hog("seen", "fill 50MiB"))
	var state struct {
		Node, Arming string
		Signals      []struct{ Signal string }
		Next         struct{ Pod string }
		Pods         []struct {
			Pod    string
			Memory int64
		}
	}
	s.poll("the client shows the pod with its memory", func() bool {
		output, err := s.client("top", cluster.NodeName, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(output), &state)
		}
		if err != nil {
			s.Fatalf("kubectl plimsoll top: %v\n%s", err, output)
		}
		for _, p := range state.Pods {
			if strings.HasSuffix(p.Pod, "/"+pod.Object.Name) && p.Memory >= 50*mib {
				return true
			}
		}
		return false
	})
	if state.Node != cluster.NodeName || state.Arming != "armed" || len(state.Signals) == 0 || state.Next.Pod == "" {
		s.Errorf("kubectl plimsoll top: %+v", state)
	}
	if output, err := s.client("top", cluster.NodeName); err != nil || !strings.Contains(output, "\nNEXT EVICTION") || !strings.Contains(output, "⊖") {
		s.Errorf("kubectl plimsoll top: %v\n%s", err, output)
	}
	file := filepath.Join(s.TempDir(), "node.recording")
	if output, err := s.client("recording", "export", cluster.NodeName, "-f", file, "--begin=1h"); err != nil || output != "" {
		s.Fatalf("kubectl plimsoll recording export: %v\n%s", err, output)
	}
	if output, err := s.client("recording", "info", file); err != nil || !strings.Contains(output, " on node "+cluster.NodeName+",") {
		s.Errorf("kubectl plimsoll recording info: %v\n%s", err, output)
	}
}

// client runs kubectl plimsoll as an administrator.
func (s *env) client(args ...string) (string, error) {
	return s.execute(s.release.client, append(args, "--kubeconfig="+s.release.kubeconfig)...)
}

// clientOperates disarms a node, arms it again, and explains an eviction there, with the client alone. The transcript has its
// output, which docs/how-to/see-the-cluster.md quotes.
func (s *env) clientOperates() {
	pods := s.pods(requesting(cluster.Hog("web", "fill 100MiB"), 120*mib), cluster.Hog("batch", "fill 50MiB"))
	batch := pods[1].Object.Namespace + "/" + pods[1].Object.Name
	s.shows("1 node: 1 armed\n", "status", cluster.NodeName)
	s.shows("1 of 1 nodes: disarmed\n", "disarm", cluster.NodeName, "--yes")
	s.poll("the status is disarmed", func() bool {
		output, err := s.client("status", cluster.NodeName)
		return err == nil && strings.Contains(output, "1 node: 1 disarmed")
	})
	s.shows("the Node's annotation is set to disarmed", "doctor")
	s.refuses("  to be armed            1  "+cluster.NodeName+"\n", "arm", cluster.NodeName) // the test has no terminal
	s.shows("1 of 1 nodes: armed\n", "arm", cluster.NodeName, "--yes")
	s.order(pods[1], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(pods[1], "memory")
	s.poll("the status has the eviction", func() bool {
		output, err := s.client("status", cluster.NodeName)
		return err == nil && strings.Contains(output, batch)
	})
	s.shows(batch, "status", cluster.NodeName)
	s.shows("LAST DECISIONS", "top", cluster.NodeName)
	s.poll("the eviction is recorded", func() bool {
		_, err := s.client("why", "pod", batch)
		return err == nil
	})
	s.shows("Pod "+batch+" was evicted from node "+cluster.NodeName+".", "why", "pod", batch)
	s.shows(batch, "why")
}

// shows runs the client, and logs its output, which must contain a text.
func (s *env) shows(want string, args ...string) {
	s.Helper()
	if err := s.prints(want, args...); err != nil {
		s.Errorf("kubectl plimsoll %s: %v", strings.Join(args, " "), err)
	}
}

// refuses is shows for a command that fails.
func (s *env) refuses(want string, args ...string) {
	s.Helper()
	if err := s.prints(want, args...); err == nil {
		s.Errorf("kubectl plimsoll %s: no error", strings.Join(args, " "))
	}
}

// prints is shows for any result of the command, which it returns.
func (s *env) prints(want string, args ...string) error {
	s.Helper()
	output, err := s.client(args...)
	s.Logf("kubectl plimsoll %s\n%s", strings.Join(args, " "), output)
	if !strings.Contains(output, want) {
		s.Errorf("kubectl plimsoll %s: no %q in\n%s", strings.Join(args, " "), want, output)
	}
	return err
}
