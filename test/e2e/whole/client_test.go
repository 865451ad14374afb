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
