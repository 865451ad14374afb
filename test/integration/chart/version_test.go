package chart_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

var appVersion = regexp.MustCompile(`(?m)^appVersion: (\S+)$`)

// TestVersion_HasOneSource checks that the chart asks for the version that make builds,
// independent of git.
func TestVersion_HasOneSource(t *testing.T) {
	version := appVersion.FindStringSubmatch(text(t, filepath.Join(chart, "Chart.yaml")))[1]
	image := find[*appsv1.DaemonSet](t, needTool(t, "helm").made(t), "DaemonSet/plimsoll-agent").Spec.Template.Spec.Containers[0].Image
	name, tag, _ := strings.Cut(image, ":")
	if tag != version {
		t.Errorf("the chart uses %s, but its version is %s", image, version)
	}
	for target, want := range map[string][]string{
		"build": {"-X main.version=" + version + " ", "-X main.commit="},
		"image": {"-X main.version=" + version + " ", "-name " + name + " ", "-version " + version + " "},
	} {
		cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "--no-print-directory", target)
		cmd.Dir = filepath.Join("..", "..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
		for _, words := range want {
			if !strings.Contains(string(out), words) {
				t.Errorf("make %s: no %q in\n%s", target, words, out)
			}
		}
	}
}
