package chart_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// server is a real API server, with the tools that install into it.
type server struct {
	cluster *cluster.Cluster
	api     kubernetes.Interface
	objects dynamic.Interface
	finder  discovery.DiscoveryInterface
	helm    *tool
	jobs    *jobs
}

func newServer(t *testing.T) *server {
	t.Helper()
	helm := needTool(t, "helm")
	s := &server{cluster: cluster.Make(t, cluster.Options{Components: cluster.APIServer}), helm: helm}
	admin := s.cluster.Admin()
	admin.QPS = -1
	api, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	s.api, s.finder = api, api.Discovery()
	if s.objects, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	config, err := s.cluster.Kubeconfig(s.cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	helm.args = []string{"--namespace=" + namespace, "--kubeconfig=" + config}
	s.jobs = s.runJobs(t)
	return s
}

// change installs or upgrades.
func (s *server) change(ctx context.Context, what string, values ...string) (string, error) {
	args := []string{what, release, chart, "--create-namespace"}
	if what == "upgrade" {
		args = args[:3]
	}
	for _, v := range values {
		args = append(args, "--set-json="+v)
	}
	return s.helm.run(ctx, args...)
}

func (s *server) must(t *testing.T, what string, values ...string) string {
	t.Helper()
	out, err := s.change(t.Context(), what, values...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// everything returns each object of the server as KIND NAMESPACE/NAME, except those that come
// and go by themselves.
func (s *server) everything(t *testing.T) (all []string) {
	t.Helper()
	lists, err := s.finder.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	listable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists)
	resources, err := discovery.GroupVersionResources(listable)
	if err != nil {
		t.Fatal(err)
	}
	for r := range resources {
		if slices.Contains([]string{"events", "leases", "namespaces"}, r.Resource) {
			continue
		}
		items, err := s.objects.Resource(r).List(t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			t.Fatalf("list %v: %v", r, err)
		}
		for _, o := range items.Items {
			all = append(all, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// patience bounds every wait.
const patience = time.Minute

// eventually retries query until the server has received a recent write. Returns the last error
// after the constant patience.
func (s *server) eventually(ctx context.Context, query func(context.Context) error) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err = query(ctx)
		return err == nil, nil
	})
	return err
}

func (s *server) daemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	found, err := s.api.AppsV1().DaemonSets(namespace).Get(t.Context(), "plimsoll-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRelease_OnAPIServer runs all parts; each leaves the server as it was.
func TestRelease_OnAPIServer(t *testing.T) {
	s := newServer(t)
	t.Run("namespace that refuses the agent", s.refusingNamespace)
	t.Run("life cycle", s.life)
	t.Run("arming setting survives upgrades", s.settingSurvivesUpgrades)
	t.Run("arming setting before the release", s.settingBeforeInstall)
	t.Run("upgrade that disarms", s.disarmingUpgrade)
	t.Run("faulty configuration", s.faultyConfiguration)
	t.Run("all variants", s.everyVariant)
}

// life installs, upgrades, rolls back and uninstalls, and checks that nothing is left.
func (s *server) life(t *testing.T) {
	before := s.everything(t)
	s.jobs.ran() // those of other tests

	notes := s.must(t, "install")
	for _, words := range []string{"The agents are disarmed, except on nodes that were armed by name", "plimsoll arm --all", "The controller observes"} {
		if !strings.Contains(notes, words) {
			t.Errorf("the notes do not contain %q:\n%s", words, notes)
		}
	}
	if diff := cmp.Diff([]string{"plimsoll-config-check"}, s.jobs.ran()); diff != "" {
		t.Errorf("Jobs before it was installed (-want +got):\n%s", diff)
	}
	s.notesWork(t, notes)
	first := s.daemonSet(t)
	s.must(t, "upgrade")
	if again := s.daemonSet(t); again.Generation != first.Generation {
		t.Errorf("an upgrade without a change replaced pods: %s", cmp.Diff(first.Spec, again.Spec))
	}
	s.must(t, "upgrade", `agent.config={"evictionHard":{"memory.available":"700Mi"}}`)
	if changed := s.daemonSet(t); changed.Generation != first.Generation {
		t.Errorf("a change that agents apply while they run replaced pods: %s", cmp.Diff(first.Spec, changed.Spec))
	}
	s.must(t, "upgrade", `agent.config={"recordingSize":"128Mi"}`)
	if changed := s.daemonSet(t); changed.Generation == first.Generation {
		t.Error("a change that needs a restart did not replace pods")
	}
	s.helm.must(t, "rollback", release, "1")
	if diff := cmp.Diff(first.Spec, s.daemonSet(t).Spec); diff != "" {
		t.Errorf("rolled back (-then +now):\n%s", diff)
	}

	s.jobs.ran()
	s.helm.must(t, "test", release)
	if diff := cmp.Diff([]string{"plimsoll-test"}, s.jobs.ran()); diff != "" {
		t.Errorf("Jobs of helm test (-want +got):\n%s", diff)
	}
	s.helm.must(t, "uninstall", release)
	if diff := cmp.Diff([]string{"plimsoll-cleanup"}, s.jobs.ran()); diff != "" {
		t.Errorf("Jobs before it was uninstalled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, s.settled(t, before)); diff != "" {
		t.Errorf("objects after uninstall (-before +after):\n%s", diff)
	}
}

// refusingNamespace checks that an installation is refused, with the remedy, if the namespace would
// reject its pods. It is also refused for a kind that the server does not have.
func (s *server) refusingNamespace(t *testing.T) {
	namespaces := s.api.CoreV1().Namespaces()
	const enforce = "pod-security.kubernetes.io/enforce"
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{enforce: "baseline"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.change(t.Context(), "install")
	if err := refused(err, "kubectl label namespace "+namespace, enforce+"=privileged"); err != nil {
		t.Error(err)
	}
	_, err = s.change(t.Context(), "install", `agent.enabled=false`, `metrics.rules.enabled=true`)
	if err := refused(err, "the server has no kind PrometheusRule"); err != nil {
		t.Error(err)
	}
	s.must(t, "install", `agent.enabled=false`)
	s.helm.must(t, "uninstall", release)
	if _, err := namespaces.Patch(t.Context(), namespace, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"privileged"}}}`, enforce), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// settled returns everything once deletions have completed.
func (s *server) settled(t *testing.T, want []string) (all []string) {
	t.Helper()
	_ = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		all = s.everything(t)
		return slices.Equal(all, want), nil
	})
	return all
}

// settingSurvivesUpgrades checks that the chart does not revert the setting for all nodes, which
// is stored in an object of the chart.
func (s *server) settingSurvivesUpgrades(t *testing.T) {
	configMaps := s.api.CoreV1().ConfigMaps(namespace)
	setting := func() string {
		t.Helper()
		found, err := configMaps.Get(t.Context(), "plimsoll-arming", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.Data["all"]
	}
	set := func(w string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"data":{"all":%q}}`, w)
		if _, err := configMaps.Patch(t.Context(), "plimsoll-arming", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "plimsoll"}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want, when string) {
		t.Helper()
		if got := setting(); got != want {
			t.Errorf("%s: got setting %q, want %q", when, got, want)
		}
	}
	s.must(t, "install")
	expect("", "installed without a setting")
	set("armed")
	s.must(t, "upgrade", `podAnnotations={"a":"b"}`)
	expect("armed", "armed by hand, then upgraded")
	s.helm.must(t, "rollback", release, "1")
	expect("armed", "armed by hand, then rolled back")
	s.helm.must(t, "uninstall", release, "--no-hooks")

	contains := func(notes, words string) {
		t.Helper()
		if !strings.Contains(notes, words) {
			t.Errorf("the notes do not contain %q:\n%s", words, notes)
		}
	}
	contains(s.must(t, "install", `agent.arming.all="armed"`), "All agents are set to armed")
	expect("armed", "installed with a setting")
	set("disarmed")
	contains(s.must(t, "upgrade", `agent.arming.all="armed"`, `podAnnotations={"a":"b"}`), "The agents are disarmed")
	expect("disarmed", "installed with a setting, disarmed by hand, then upgraded")
	s.helm.must(t, "uninstall", release, "--no-hooks")
}
