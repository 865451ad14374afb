package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// silence bounds the wait for a response that does not arrive.
const silence = 2 * time.Second

// listNodes lists the nodes through a new connection of the configuration.
func listNodes(t *testing.T, config *rest.Config) error {
	t.Helper()
	return askWithin(t, config, patience)
}

func askWithin(t *testing.T, config *rest.Config, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext // prevents a shared transport
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err
}

func TestAPIServer_InjectsFaults(t *testing.T) {
	begin := time.Now()
	c := Make(t, Options{Components: APIServer})
	t.Logf("etcd and API server started in %v", time.Since(begin))
	ctx := testContext(t)
	token, err := c.Token(ctx, "plimsoll-system", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("RBAC", func(t *testing.T) { enforcesRBAC(t, c, token) })
	t.Run("node identity", func(t *testing.T) { identifiesNodes(t, c) })
	t.Run("answers", func(t *testing.T) { answersItself(t, c, token) })
	t.Run("watch", func(t *testing.T) { passesWatches(t, ctx, c, token) })
	for name, config := range map[string]*rest.Config{"link": c.Link.Config(c.Admin()), "front": c.Front.Config(c.Bearer(token))} {
		t.Run("connections of "+name, func(t *testing.T) {
			g := c.Link.gate
			if name == "front" {
				g = c.Front.gate
			}
			connectionsFail(t, g, config)
		})
	}
	t.Run("process", func(t *testing.T) { processFails(t, ctx, c) })
	t.Run("kubectl", func(t *testing.T) {
		out, err := c.Kubectl(ctx, "version")
		if err != nil || !strings.Contains(out, "Server Version: v1.37.2") {
			t.Errorf("kubectl version: %s, %v", out, err)
		}
	})
}

// enforcesRBAC: an account has no permission until a rule grants it.
func enforcesRBAC(t *testing.T, c *Cluster, token string) {
	if err := listNodes(t, c.Bearer(token)); !apierrors.IsForbidden(err) {
		t.Fatalf("without a rule: %v, want forbidden", err)
	}
	clients, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodes"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "plimsoll-system", Name: "agent"}},
	}
	_, err = clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	_, err2 := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	err = await(testContext(t), func(context.Context) error { return listNodes(t, c.Bearer(token)) }) // the authorizer receives the rule with a delay
	if err != nil {
		t.Errorf("with a rule: %v", err)
	}
}

// identifiesNodes: a node can create itself and no other node.
func identifiesNodes(t *testing.T, c *Cluster) {
	clients, err := kubernetes.NewForConfig(c.As("system:node:"+NodeName, "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	for name, allowed := range map[string]bool{NodeName: true, "other": false} {
		_, err := clients.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if allowed != (err == nil) {
			t.Errorf("node %s created node %s: %v", NodeName, name, err)
		}
	}
}

func answersItself(t *testing.T, c *Cluster, token string) {
	config := c.Front.Config(c.Bearer(token))
	if err := listNodes(t, config); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	for code, is := range map[int]func(error) bool{
		http.StatusGone: apierrors.IsResourceExpired, http.StatusConflict: apierrors.IsConflict,
		http.StatusTooManyRequests: apierrors.IsTooManyRequests, http.StatusInternalServerError: apierrors.IsInternalError,
	} {
		c.Front.Answer(code, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/nodes") })
		if err := listNodes(t, config); !is(err) || c.Front.Answered(code) == 0 {
			t.Errorf("answer %d: the client got %v after %d answers", code, err, c.Front.Answered(code))
		}
	}
	c.Front.Forward()
	c.Front.Answer(http.StatusConflict, func(*http.Request) bool { return false })
	if err := listNodes(t, config); err != nil {
		t.Errorf("request without a matching rule: %v", err)
	}
	c.Front.Forward()
}

// passesWatches: the front forwards an event without delay.
func passesWatches(t *testing.T, ctx context.Context, c *Cluster, token string) {
	clients, err := kubernetes.NewForConfig(c.Front.Config(c.Bearer(token)))
	if err != nil {
		t.Fatal(err)
	}
	watching, err := clients.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name=watched"})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-watching.ResultChan():
		if node, is := e.Object.(*corev1.Node); !is || node.Name != "watched" {
			t.Errorf("event %v", e)
		}
	case <-time.After(patience):
		t.Error("no event")
	}
	frozenWatch(t, ctx, c, watching.ResultChan())
	c.Front.Drop()
	for range watching.ResultChan() { // ends, or the test hangs here
	}
}

// frozenWatch: a frozen watch delivers no event while other requests are answered, and delivers it
// after Thaw.
func frozenWatch(t *testing.T, ctx context.Context, c *Cluster, events <-chan watch.Event) {
	t.Helper()
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	c.Front.Freeze(func(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" })
	patch := []byte(`{"metadata": {"labels": {"changed": "true"}}}`)
	if _, err := admin.CoreV1().Nodes().Patch(ctx, "watched", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-events:
		t.Errorf("a frozen watch delivered %v", e)
	case <-time.After(300 * time.Millisecond):
	}
	c.Front.Thaw()
	select {
	case e := <-events:
		if node, is := e.Object.(*corev1.Node); !is || node.Labels["changed"] != "true" {
			t.Errorf("event %v", e)
		}
	case <-time.After(patience):
		t.Error("the watch delivered nothing after Thaw")
	}
}

func connectionsFail(t *testing.T, g *gate, config *rest.Config) {
	if err := listNodes(t, config); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	g.Refuse()
	if err := listNodes(t, config); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	if err := g.Pass(); err != nil {
		t.Fatal(err)
	}
	g.Stall()
	if err := askWithin(t, config, silence); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stalled: %v", err)
	}
	if err := g.Pass(); err != nil {
		t.Fatal(err)
	}
	const late = 300 * time.Millisecond
	g.Delay(late)
	if begin, err := time.Now(), listNodes(t, config); err != nil || time.Since(begin) < late {
		t.Errorf("delayed: %v after %v", err, time.Since(begin))
	}
	if err := g.Pass(); err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t, config); err != nil {
		t.Errorf("after all faults: %v", err)
	}
}

func processFails(t *testing.T, ctx context.Context, c *Cluster) {
	if err := c.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := askWithin(t, c.Admin(), silence); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("paused: %v", err)
	}
	if err := c.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := listNodes(t, c.Admin()); err != nil {
		t.Errorf("resumed: %v", err)
	}
	for name, end := range map[string]func() error{"stopped": func() error { return c.APIServer.Stop(ctx) }, "killed": c.APIServer.Kill} {
		begin := time.Now()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		if err := listNodes(t, c.Admin()); !errors.Is(err, syscall.ECONNREFUSED) || c.APIServer.Running() {
			t.Errorf("%s: %v, running %v", name, err, c.APIServer.Running())
		}
		begin = time.Now()
		if err := c.APIServer.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s after %v, back after %v", name, took, time.Since(begin))
		if err := listNodes(t, c.Admin()); err != nil {
			t.Errorf("after it was %s: %v", name, err)
		}
	}
}

// TestRuntimeLink_InjectsFaults: the link injects the configured faults while the runtime itself is
// healthy.
func TestRuntimeLink_InjectsFaults(t *testing.T) {
	c := Make(t, Options{Components: Containerd, Node: NodeOptions{Memory: 256 << 20}})
	conn, err := connect(c.Node.Link.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
		return err
	}
	if err := version(patience); err != nil {
		t.Fatal(err)
	}
	c.Node.Link.Stall()
	if err := version(silence); err == nil {
		t.Error("a stalled link answered")
	}
	if err := c.Node.Link.Pass(); err != nil {
		t.Fatal(err)
	}
	c.Node.Link.Refuse()
	if err := version(silence); err == nil {
		t.Error("a refusing link answered")
	}
	if _, err := c.Node.Runtime.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
		t.Errorf("the runtime itself: %v", err)
	}
	if err := c.Node.Link.Pass(); err != nil {
		t.Fatal(err)
	}
	if err := await(testContext(t), func(context.Context) error { return version(silence) }); err != nil {
		t.Error(err)
	}
}

// TestTogether_CancelsOnFirstError: the first error cancels the other steps.
func TestTogether_CancelsOnFirstError(t *testing.T) {
	broken := errors.New("broken")
	err := together(t.Context(),
		func(context.Context) error { return broken },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// TestFreePorts_AreReserved: no other cluster, of this process or another one, can choose the same ports.
func TestFreePorts_AreReserved(t *testing.T) {
	ports, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if reserve(port) {
			t.Errorf("port %s can be chosen again", port)
		}
	}
}
