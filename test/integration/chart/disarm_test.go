package chart_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// setting returns the setting for all nodes; absent without the ConfigMap.
func (s *server) setting(t *testing.T) string {
	t.Helper()
	found, err := s.api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "plimsoll-arming", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.Data["all"]
}

// program builds plimsoll and returns a function that runs it with an administrator's rights.
func (s *server) program(t *testing.T) func(args ...string) (out string, status int) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "plimsoll")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../../cmd/plimsoll").CombinedOutput(); err != nil {
		t.Fatalf("build plimsoll: %v\n%s", err, out)
	}
	return func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append(args, s.helm.args[1])...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

// settingBeforeInstall checks that plimsoll disarm --all fails before the release exists. Its
// setting is kept by a later installation.
func (s *server) settingBeforeInstall(t *testing.T) {
	plimsoll := s.program(t)
	maps := s.api.CoreV1().ConfigMaps(namespace)
	expect := func(want, when string) {
		t.Helper()
		if got := s.setting(t); got != want {
			t.Errorf("%s: got setting %q, want %q", when, got, want)
		}
	}
	for _, setting := range []string{"arm", "cleanup"} {
		if out, status := plimsoll(setting, "--all"); status != 1 || !strings.Contains(out, "is not written") {
			t.Errorf("%s before there is an agent: %d: %s", setting, status, out)
		}
		expect("absent", setting+" before there is an agent")
	}
	disarm := func() {
		t.Helper()
		if out, status := plimsoll("disarm", "--all"); status != 1 || !strings.Contains(out, "no agent has a lease in the namespace "+namespace) {
			t.Errorf("disarm before there is an agent: %d: %s", status, out)
		}
		expect("disarmed", "disarmed before there is an agent")
	}

	disarm()
	s.must(t, "install")
	expect("disarmed", "then installed")
	s.must(t, "upgrade", `podAnnotations={"a":"b"}`)
	expect("disarmed", "then upgraded")
	s.helm.must(t, "rollback", release, "1")
	expect("disarmed", "then rolled back")
	s.helm.must(t, "uninstall", release, "--no-hooks")
	expect("absent", "the release has adopted it, and was uninstalled")

	disarm()
	s.helm.must(t, "install", "another", chart)
	expect("disarmed", "then installed as another release")
	s.helm.must(t, "upgrade", "another", chart, `--set-json=podAnnotations={"a":"b"}`)
	expect("disarmed", "then upgraded")
	s.helm.must(t, "uninstall", "another", "--no-hooks")
	expect("disarmed", "another release has not adopted it")
	s.must(t, "install")
	s.helm.must(t, "uninstall", release, "--no-hooks")
	expect("absent", "adopted later")

	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "plimsoll-arming"}, Data: map[string]string{"all": "disarmed"}}
	if _, err := maps.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.change(t.Context(), "install")
	if err := refused(err, "plimsoll-arming", "belongs to no release"); err != nil {
		t.Error(err)
	}
	remedy := regexp.MustCompile(`kubectl (-n .*=keep)`).FindStringSubmatch(err.Error())
	kubectl := needTool(t, "kubectl")
	kubectl.args = s.helm.args[1:]
	kubectl.must(t, strings.Fields(remedy[1])...)
	if notes := s.must(t, "install"); !strings.Contains(notes, "existed before this release and does not belong to it") {
		t.Errorf("the notes do not report that the release does not own it:\n%s", notes)
	}
	s.must(t, "upgrade", `podAnnotations={"a":"b"}`)
	s.helm.must(t, "uninstall", release, "--no-hooks")
	expect("disarmed", "made by hand, installed, upgraded and uninstalled")
	if err := maps.Delete(t.Context(), "plimsoll-arming", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// disarmingUpgrade checks that the value disarmed overrides any setting in the cluster, and
// that the notes report it. An upgrade without a setting disarms nothing.
func (s *server) disarmingUpgrade(t *testing.T) {
	upgrade := func(want, when string, args ...string) (notes string) {
		t.Helper()
		notes = s.helm.must(t, append([]string{"upgrade", release, chart}, args...)...)
		if got := s.setting(t); got != want {
			t.Errorf("%s: got setting %q, want %q", when, got, want)
		}
		return notes
	}
	const disarmed = "--set=agent.arming.all=disarmed"
	s.must(t, "install", `agent.arming.all="armed"`)
	if notes := upgrade("disarmed", "installed armed, disarmed by an upgrade", disarmed); !strings.Contains(notes, "The agents are disarmed: ") {
		t.Errorf("the notes do not report that all agents are disarmed:\n%s", notes)
	}
	s.helm.must(t, "uninstall", release, "--no-hooks")

	s.must(t, "install")
	patch := []byte(`{"data":{"all":"armed"}}`)
	if _, err := s.api.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "plimsoll-arming", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "plimsoll"}); err != nil {
		t.Fatal(err)
	}
	upgrade("armed", "armed by hand, then upgraded")
	_, err := s.helm.run(t.Context(), "upgrade", release, chart, disarmed)
	if err := refused(err, "conflict", ".data.all"); err != nil {
		t.Error(err)
	}
	upgrade("disarmed", "armed by hand, disarmed by an upgrade", disarmed, "--force-conflicts")
	s.helm.must(t, "uninstall", release, "--no-hooks")
}

// faultyConfiguration checks that nothing changes if the Job that checks the configuration
// fails.
func (s *server) faultyConfiguration(t *testing.T) {
	s.must(t, "install")
	before := s.daemonSet(t)
	s.jobs.failing.Store(true)
	defer s.jobs.failing.Store(false)
	_, err := s.change(t.Context(), "upgrade", `agent.config={"evictionHard":{"memory.available":"700Mi"},"monitoringPeriod":"soon"}`)
	if err := refused(err, "plimsoll-config-check"); err != nil {
		t.Error(err)
	}
	if after := s.daemonSet(t); after.Generation != before.Generation {
		t.Error("the agents are replaced all the same")
	}
	if files, err := s.api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "plimsoll-agent", metav1.GetOptions{}); err != nil || strings.Contains(files.Data["agent.yaml"], "soon") {
		t.Errorf("the faulty configuration is installed: %v", err)
	}
	s.jobs.failing.Store(false)
	s.must(t, "upgrade")
	s.helm.must(t, "uninstall", release, "--no-hooks")
}

// notesWork runs the command of the notes that shows every agent.
func (s *server) notesWork(t *testing.T, notes string) {
	t.Helper()
	command := regexp.MustCompile(`kubectl (-n \S+ get leases .*)`).FindStringSubmatch(notes)
	if command == nil {
		t.Fatalf("the notes have no command for the state of every agent:\n%s", notes)
	}
	leases := s.api.CoordinationV1().Leases(namespace)
	for node, armed := range map[string]string{"node-1": "true", "node-2": "false"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{
			heartbeat.AnnotationVersion: "v", heartbeat.AnnotationArmed: armed, heartbeat.AnnotationArmedReason: "because", heartbeat.AnnotationFindings: "right-missing"}}}
		if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = leases.Delete(context.Background(), node, metav1.DeleteOptions{}) })
	}
	kubectl, err := cluster.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", kubectl+" "+s.helm.args[1]+" "+command[1]).CombinedOutput()
	for _, row := range []string{`node-1 +true +because +right-missing`, `node-2 +false +because +right-missing`} {
		if !regexp.MustCompile(row).Match(out) {
			t.Errorf("%v: no row %q in\n%s", err, row, out)
		}
	}
}
