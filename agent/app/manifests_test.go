package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// No notification reports a manifest that was written before the watch began.
func TestManifests_FindsPodWrittenBeforeWatch(t *testing.T) {
	dir := t.TempDir()
	m := openManifests(dir, nil, (&logcapture.Book{}).Logger())
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: uid-a}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if pods := m.pods(); len(pods) != 0 {
		t.Fatalf("%d pods are known before the watch", len(pods))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	m.watch(ended, dir)
	if pods := m.pods(); len(pods) != 1 || pods[0].Name != "a" {
		t.Errorf("pods: %+v, want a", pods)
	}
}
