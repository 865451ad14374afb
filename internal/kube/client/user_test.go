package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/kube/client"
)

// As with kubectl, each of the files may hold a part, and one that is missing is none.
func TestDialAsUser_MergesTheFilesOfKUBECONFIG(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	context := file("context", "current-context: b\ncontexts: [{name: b, context: {cluster: b, user: u}}]\n")
	clusters := file("clusters", "current-context: a\nclusters: [{name: a, cluster: {server: 'https://a.test'}}, {name: b, cluster: {server: 'https://b.test'}}]\n"+
		"contexts: [{name: a, context: {cluster: a, user: u}}]\nusers: [{name: u, user: {token: t}}]\n")
	missing := filepath.Join(dir, "missing")
	for name, tc := range map[string]struct {
		files           []string
		given           string
		context, server string
		fault           string
	}{
		"the first file chooses the context":  {files: []string{missing, context, clusters}, context: "b", server: "https://b.test"},
		"a later file that chooses another":   {files: []string{clusters, context}, context: "a", server: "https://a.test"},
		"an empty entry":                      {files: []string{"", clusters}, context: "a", server: "https://a.test"},
		"--kubeconfig wins":                   {files: []string{context, clusters}, given: clusters, context: "a", server: "https://a.test"},
		"no file exists":                      {files: []string{missing, missing + "-too"}, fault: missing + "-too: file does not exist"},
		"a --kubeconfig that does not exist":  {files: []string{clusters}, given: missing, fault: "missing"},
		"a context without a cluster is none": {files: []string{context}, fault: "use the kubeconfig " + context},
	} {
		t.Setenv("KUBECONFIG", strings.Join(tc.files, string(filepath.ListSeparator)))
		clients, err := client.DialAsUser(tc.given, "test")
		switch {
		case tc.fault != "":
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: %v, want %s", name, err, tc.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case clients.Context != tc.context || clients.Server != tc.server:
			t.Errorf("%s: the context is %s at %s", name, clients.Context, clients.Server)
		}
	}
}
