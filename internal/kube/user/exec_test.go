package user_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"plimsoll.dev/plimsoll/internal/kube/user"
)

// streams are the outputs of a command, on the side of the server.
type streams struct{ stdout, stderr, status io.Writer }

// kubelet serves the exec subresource: it runs a function in place of the command.
type kubelet struct {
	t        *testing.T
	noSocket bool // WebSockets are refused
	run      func(command []string, s streams)
	refused  string // method of requests that are forbidden; *: each
	methods  []string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.methods = append(k.methods, r.Method)
	q := r.URL.Query()
	if r.URL.Path != "/api/v1/namespaces/ns/pods/pod/exec" || q.Get("container") != "agent" || q.Get("stdout") != "true" || q.Get("stderr") != "true" || q.Get("stdin") != "" || q.Get("tty") != "" {
		k.t.Errorf("request %s", r.URL)
	}
	switch {
	case k.refused == r.Method, k.refused == "*":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "no"})
	case k.noSocket && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet:
		k.serveSocket(w, r, q["command"])
	default:
		k.serveSPDY(w, r, q["command"])
	}
}

func (k *kubelet) serveSocket(w http.ResponseWriter, r *http.Request, command []string) {
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true,
		Channels: []wsstream.ChannelType{wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.IgnoreChannel}}})
	_, channels, err := conn.Open(w, r)
	if err != nil {
		k.t.Error(err)
		return
	}
	k.run(command, streams{channels[1], channels[2], channels[3]})
	_ = conn.Close()
}

func (k *kubelet) serveSPDY(w http.ResponseWriter, r *http.Request, command []string) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		k.t.Error(err)
		return
	}
	made := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			made <- s
		}()
		return nil
	})
	var s streams
	for range 3 {
		switch stream := <-made; stream.Headers().Get("streamType") {
		case "stdout":
			s.stdout = stream
		case "stderr":
			s.stderr = stream
		case "error":
			s.status = stream
		}
	}
	k.run(command, s)
	_ = conn.Close()
}

// ends writes the status of a command that ended.
func (s streams) ends(code int) {
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}}}}
	}
	_ = json.NewEncoder(s.status).Encode(status)
}

// serveExec returns a connection to a server of the exec subresource.
func serveExec(t *testing.T, k *kubelet) *user.Connection {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", kubeconfig(t, server.URL, server.URL))
	c, err := parsed(t).Dial("test/1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exec(ctx context.Context, c *user.Connection, command ...string) (out, errs string, err error) {
	var o, e strings.Builder
	err = c.Exec(ctx, "ns", "pod", "agent", command, &o, &e)
	return o.String(), e.String(), err
}

// Over either connection, words of a command arrive as they are, its output is complete, and its exit status is known.
func TestExec_OverEitherConnection(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for _, noSocket := range []bool{false, true} {
		k := &kubelet{t: t, noSocket: noSocket, run: func(command []string, s streams) {
			if !slices.Equal(command, []string{"/plimsoll", "top", "a b&c=d", ""}) {
				t.Errorf("command %q", command)
			}
			_, _ = io.WriteString(s.stdout, large)
			_, _ = io.WriteString(s.stderr, "note")
			s.ends(3)
		}}
		out, errs, err := exec(t.Context(), serveExec(t, k), "/plimsoll", "top", "a b&c=d", "")
		var exit interface{ ExitStatus() int }
		if out != large || errs != "note" || !errors.As(err, &exit) || exit.ExitStatus() != 3 {
			t.Errorf("without WebSocket %t: %d bytes, %q, %v", noSocket, len(out), errs, err)
		}
		want := []string{http.MethodGet}
		if noSocket {
			want = append(want, http.MethodPost)
		}
		if !slices.Equal(k.methods, want) {
			t.Errorf("requests %q, want %q", k.methods, want)
		}
		k.run = func(_ []string, s streams) { s.ends(0) }
		if _, _, err := exec(t.Context(), serveExec(t, k), "/plimsoll"); err != nil {
			t.Errorf("without WebSocket %t: %v", noSocket, err)
		}
	}
}

// Without the right, the error is that of the API server. With the right to create alone, older API servers refuse a WebSocket.
func TestExec_Forbidden(t *testing.T) {
	if _, _, err := exec(t.Context(), serveExec(t, &kubelet{t: t, refused: "*"}), "/plimsoll"); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
	for code := range 2 {
		k := &kubelet{t: t, refused: http.MethodGet, run: func(_ []string, s streams) { s.ends(code) }}
		if _, _, err := exec(t.Context(), serveExec(t, k), "/plimsoll"); (err == nil) != (code == 0) || apierrors.IsForbidden(err) {
			t.Errorf("exit status %d over SPDY: %v", code, err)
		}
	}
}

// A command that does not end does so with the context, on this side.
func TestExec_EndsWithContext(t *testing.T) {
	for _, noSocket := range []bool{false, true} {
		hangs, begun := make(chan struct{}), make(chan struct{})
		k := &kubelet{t: t, noSocket: noSocket, run: func([]string, streams) { close(begun); <-hangs }}
		c := serveExec(t, k)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		if _, _, err := exec(ctx, c, "/plimsoll"); !errors.Is(err, context.Canceled) {
			t.Errorf("without WebSocket %t: %v", noSocket, err)
		}
		close(hangs)
	}
}
