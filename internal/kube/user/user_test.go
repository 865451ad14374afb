package user_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/user"
)

// parsed returns the flags of a command line.
func parsed(t *testing.T, args ...string) *user.Flags {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f := user.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// kubeconfig writes a file with the contexts a and b, of which a is the current one.
func kubeconfig(t *testing.T, a, b string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"contexts: [{name: b, context: {cluster: b, namespace: theirs}}, {name: a, context: {cluster: a}}]\n"+
		"clusters: [{name: a, cluster: {server: %q}}, {name: b, cluster: {server: %q}}]\n", a, b)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDial_FollowsFlags(t *testing.T) {
	file := kubeconfig(t, "http://a:1", "http://b:2")
	t.Setenv("KUBECONFIG", file)
	for _, tc := range []struct {
		args      string
		name      string
		namespace string // of pods
		fault     string
	}{
		{"", "the context a (http://a:1)", "default", ""},
		{"--context=b", "the context b (http://b:2)", "theirs", ""},
		{"--context b -n mine", "the context b (http://b:2)", "mine", ""},
		{"--cluster=b --namespace=mine", "the context a (http://b:2)", "mine", ""},
		{"-s http://c:3", "the context a (http://c:3)", "default", ""},
		{"--context=c", "", "", `use the kubeconfig: context "c" does not exist`},
		{"--user=u", "", "", `auth info "u" does not exist`},
		{"--kubeconfig=" + filepath.Join(t.TempDir(), "none"), "", "", "no such file"},
		{"--proxy-url=ftp://p", "", "", "unsupported scheme"},
		{"--request-timeout=soon", "", "", "use the kubeconfig"},
	} {
		flags := parsed(t, strings.Fields(tc.args)...)
		c, err := flags.Dial("test")
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: got %v, want %s", tc.args, err, tc.fault)
			}
			continue
		}
		namespace, fault := flags.Namespace()
		if err != nil || fault != nil || c.Name() != tc.name || namespace != tc.namespace {
			t.Errorf("%s: %v, %v, %s, %+v", tc.args, err, fault, namespace, c)
		}
	}
	if got, err := parsed(t).Contexts(); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("contexts %v, %v", got, err)
	}
}

// Without a kubeconfig there is no server, and none on localhost.
func TestDial_WithoutServer(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_MASTER", "http://localhost:8080")
	if _, err := parsed(t).Dial("test"); !errors.Is(err, user.ErrNoCluster) {
		t.Errorf("got %v", err)
	}
	if c, err := parsed(t, "--server=http://c:3").Dial("test"); err != nil || c.Name() != "the server http://c:3" {
		t.Errorf("%v, %+v", err, c)
	}
}

// Ages are by the clock of the server. Requests have the client's name, and end.
func TestConnection_UsesClockOfServer(t *testing.T) {
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "test/1" {
			t.Errorf("the user agent is %q", r.UserAgent())
		}
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/slow") {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-hangs
			return
		}
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
	}))
	defer server.Close()
	defer close(hangs)
	t.Setenv("KUBECONFIG", kubeconfig(t, server.URL, server.URL))
	dial := func(timeout string) *user.Connection {
		c, err := parsed(t, "--request-timeout="+timeout).Dial("test/1")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := dial("1m")
	if d := time.Until(c.Now()); d > time.Second || d < -time.Minute {
		t.Errorf("before the first response the clock is %s ahead", d)
	}
	if n, err := c.Client.Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil || n.Name != "n" {
		t.Fatalf("%+v, %v", n, err)
	}
	if d := time.Until(c.Now()); d < 58*time.Minute || d > 61*time.Minute {
		t.Errorf("the clock is %s ahead, want an hour", d)
	}
	if _, err := dial("1s").Client.Nodes().Get(t.Context(), "slow", metav1.GetOptions{}); err == nil {
		t.Error("a request without an end has ended without an error")
	}
}
