package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPackage_RendersLikeDirectory packages the chart as a release does. Helm must find the same in the
// package as in the directory.
func TestPackage_RendersLikeDirectory(t *testing.T) {
	helm := needTool(t, "helm")
	version := appVersion.FindStringSubmatch(text(t, filepath.Join(chart, "Chart.yaml")))[1]
	dir := t.TempDir()
	pack := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(deploy, "release"), "run", ".", "chart", "-version", version, "-out", dir)
	pack.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795289862")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", pack.Args, err, out)
	}
	packed := filepath.Join(dir, "plimsoll-"+version+".tgz")
	for _, args := range [][]string{
		{"show", "all"},
		{"template", release, "--namespace=" + namespace, "--kube-version=" + kubernetesVersions[len(kubernetesVersions)-1]},
	} {
		want := helm.must(t, append(args, chart)...)
		if got := helm.must(t, append(args, packed)...); got != want || len(got) < 1000 {
			t.Errorf("helm %q differs between package and directory: %d bytes and %d", args, len(got), len(want))
		}
	}
	helm.must(t, "lint", "--strict", packed)
}
